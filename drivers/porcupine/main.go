// Judges histories of locks by Porcupine: is there an order of the operations that a lock allows?
//
//	locklab check RUN --export porcupine >operations.jsonl
//	go run . operations.jsonl
//
// It prints a line for each file with the classes of verdict that are violated, and ends with 1 if there is one; a class with a question mark was not
// decided within -timeout. With -html PAGE it draws the last violation that it found.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// A line of the export.
type operation struct {
	Op      string
	Lock    string
	Owner   int
	Grant   int
	Mode    string
	Permits *int
	Call    int64
	Return  *int64
	Sent    int64
	Lease   *int64 `json:"lease_ns"`
	Proves  bool
	// When the lease that it begins runs out, less the drift of clocks; an expiry's: what has no later deadline ends.
	deadline int64
	// When the grant's last lease runs out.
	last int64
}

// What is held: the state is a list of these.
type hold struct {
	owner, grant int
	mode         string
	deadline     int64
}

const never = int64(1) << 62

// The model of a lock.
func step(state, input, _ any) (bool, any) {
	held, op := state.([]hold), input.(operation)
	switch op.Op {
	case "acquire":
		permits := 1
		for _, other := range held {
			switch {
			case op.Mode == "permit" && other.mode == "permit":
				permits++
			case op.Mode == "read" && other.mode == "read":
			case op.Owner == other.owner && nests(op.Mode) && nests(other.mode):
			default:
				return false, held
			}
		}
		if op.Permits != nil && permits > *op.Permits {
			return false, held
		}
		held = append(renewed(held, op), hold{op.Owner, op.Grant, op.Mode, op.last})
	case "extend":
		held = renewed(held, op)
	case "end":
		held = without(held, func(it hold) bool { return it.grant == op.Grant })
	case "expire":
		held = without(held, func(it hold) bool { return it.owner == op.Owner && it.deadline <= op.deadline })
	}
	return true, held
}

func nests(mode string) bool { return mode == "reentrant" || mode == "read" }

// A re-entry, and an extend of one of several holds of an owner, renew them all: it is one lock with one time to live.
func renewed(held []hold, op operation) []hold {
	held = slices.Clone(held)
	for i := range held {
		it := &held[i]
		if it.owner == op.Owner && it.mode == op.Mode && nests(it.mode) {
			it.deadline = max(it.deadline, op.deadline)
		}
	}
	return held
}

func without(held []hold, ended func(hold) bool) []hold {
	return slices.DeleteFunc(slices.Clone(held), ended)
}

// When the lease that an operation began runs out, less the drift of clocks.
func end(op operation, drift float64) int64 {
	if op.Lease == nil || op.Sent > never-*op.Lease {
		return never
	}
	return op.Sent + *op.Lease - int64(drift*float64(*op.Lease)+0.5)
}

var model = porcupine.Model{
	Init:  func() any { return []hold(nil) },
	Step:  step,
	Equal: func(a, b any) bool { return slices.Equal(a.([]hold), b.([]hold)) },
	DescribeOperation: func(input, _ any) string {
		op := input.(operation)
		return fmt.Sprintf("%s of grant %d, owner %d", op.Op, op.Grant, op.Owner)
	},
}

// What one class makes of the operations of one grant: the first is its acquire, the others are in order of their calls.
func asClass(class string, grant []operation, drift float64) []operation {
	acquire, steps := grant[0], grant[1:]
	until := []operation{}
	last := acquire
	for _, op := range steps {
		switch {
		case class == "confirmed" && op.Proves:
			// Held at least until here; given back here, since that excuses most.
			ended := op
			ended.Op, ended.Return = "end", &ended.Call
			until = []operation{ended}
		case class != "confirmed" && op.Op == "end" && len(until) == 0:
			if op.Return == nil {
				// Never answered: it was given back at once, since that excuses most.
				op.Return = &op.Call
			}
			until = append(until, op)
		case op.Op == "extend" && op.Sent >= last.Sent:
			last = op
		}
	}
	if class == "confirmed" && len(until) == 0 || len(until) > 0 && until[0].Call <= *acquire.Return {
		// It was over when it came, or nothing is known of it.
		return nil
	}
	acquire.deadline, acquire.last = never, never
	if class != "contract" {
		return append(until, acquire)
	}
	// The last extend that worked says that it was held all the time until then.
	acquire.deadline, acquire.last = end(acquire, drift), end(last, drift)
	if acquire.last < *acquire.Return {
		// A grant that came too late. Whether it might is not a question of order.
		return nil
	}
	all := append(until, acquire)
	for _, op := range grant {
		if op.deadline = end(op, drift); op.Op != "end" && op.deadline < never {
			expiry := op
			expiry.Op, expiry.Call, expiry.Return = "expire", op.deadline, &expiry.deadline
			all = append(all, expiry)
			if op.Op == "extend" {
				all = append(all, op)
			}
		}
	}
	return all
}

func judge(class string, lines []operation, drift float64, timeout time.Duration, html string) (porcupine.CheckResult, error) {
	grants := map[string][]operation{}
	for _, op := range lines {
		key := fmt.Sprint(op.Lock, "\x00", op.Grant)
		grants[key] = append(grants[key], op)
	}
	locks := map[string][]porcupine.Operation{}
	for _, grant := range grants {
		for _, op := range asClass(class, grant, drift) {
			// What is called at an instant comes after what returned at it.
			timed := porcupine.Operation{ClientId: op.Owner, Input: op, Call: 2*op.Call + 1, Return: 2 * *op.Return}
			timed.Return = max(timed.Return, timed.Call)
			locks[op.Lock] = append(locks[op.Lock], timed)
		}
	}
	worst := porcupine.Ok
	for _, operations := range locks {
		result, info := porcupine.CheckOperationsVerbose(model, operations, timeout)
		if result == porcupine.Ok || worst == porcupine.Illegal {
			continue
		}
		worst = result
		if result == porcupine.Illegal && html != "" {
			if err := porcupine.VisualizePath(model, info, html); err != nil {
				return worst, err
			}
		}
	}
	return worst, nil
}

func read(path string) ([]operation, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []operation
	for decoder := json.NewDecoder(file); ; {
		var op operation
		if err := decoder.Decode(&op); errors.Is(err, io.EOF) {
			return lines, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: operation %d: %w", path, len(lines)+1, err)
		}
		lines = append(lines, op)
	}
}

func main() {
	drift := flag.Float64("drift", 0.01, "share of a lease by which clocks may disagree")
	timeout := flag.Duration("timeout", 10*time.Second, "how long the search of one lock may take")
	html := flag.String("html", "", "a page to draw a violation on")
	flag.Parse()
	status := 0
	for _, path := range flag.Args() {
		lines, err := read(path)
		found := []string{}
		for _, class := range []string{"belief", "contract", "confirmed"} {
			var result porcupine.CheckResult
			if err == nil {
				result, err = judge(class, lines, *drift, *timeout, *html)
			}
			switch result {
			case porcupine.Illegal:
				found = append(found, class)
			case porcupine.Unknown:
				found = append(found, class+"?")
			}
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(65)
		}
		if len(found) > 0 {
			status = 1
		}
		fmt.Printf("%s: %s\n", path, strings.Join(append(found, fmt.Sprint(len(lines), " operations")), " "))
	}
	os.Exit(status)
}
