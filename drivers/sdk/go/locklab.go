// Package locklab makes a driver of locklab's out of a lock library: the author gives a [Lock], whose Connect gives an Acquire, whose
// grants give Release and Extend. Serve does the rest of the driver protocol (docs/src/driver-protocol.md): requests side by side, grants,
// endings, clocks, events, cancellation, and the load loop with its histograms. It needs nothing but Go's standard library.
package locklab

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Lock is a lock library as its driver describes it. Its fields may be set until Connect returns.
type Lock struct {
	Name, Version string
	// Kinds has the default first; an acquire of any other kind is refused here.
	Kinds []string
	// Topologies are of single, sentinel, cluster and masters; on any other the library has nothing to lock with.
	Topologies []string
	// Features beside those that this package brings (load, prefix, overlap, mono, cancel), e.g. extend.
	Features []string
	// Watchdog is the lease that the library renews by itself; zero: it does not, and a lock without a lease is refused here.
	Watchdog time.Duration
	// Leaseless are kinds whose permits have no lease, e.g. semaphore.
	Leaseless []string
	// Connect makes the process's client. Its errors are answered `failed`; [Unreachable] says that no server answered.
	Connect func(context.Context, Hello) (Acquire, error)
}

// Acquire asks for a lock. Its error is [Busy], [Failed] of what certainly did not happen, or any other, which is unknown. Its context ends
// when the caller gives up, never because a wait is over.
type Acquire func(context.Context, Request) (*Grant, error)

// Hello says where the servers are and what is asked of the client.
type Hello struct {
	// Target is the URL as it came.
	Target string
	// Shape is single, sentinel, cluster or masters.
	Shape string
	// Hosts are host:port, one or several.
	Hosts          []string
	User, Password string
	// Path is a database's number, of sentinel the master's name.
	Path string
	TLS  bool
	// TLSCA is the file of the authority that signed the servers' certificates, where it is not one of the machine's own.
	TLSCA string
	// Client is this client's name in the record.
	Client string
	Seed   uint64
	// Durability is none, wait:K and so on; empty: none.
	Durability string
	// Watchdog is the wished lease of renewed locks; zero: the library's own.
	Watchdog time.Duration
}

// Request is one acquire.
type Request struct {
	// Lock is the name; of kind multi, Locks are all of them.
	Lock        string
	Locks       []string
	Kind, Owner string
	// Wait is the longest wait: zero is one try, [Forever] has no bound.
	Wait time.Duration
	// Lease is zero where the library renews by itself.
	Lease   time.Duration
	Permits int
	// Lost is to be called when the library says that the lock is gone.
	Lost func(reason string)
	// Extended is to be called when the library has renewed: the lease counts from the moment at which the renewal was sent.
	Extended func(lease time.Duration, sent time.Time)
}

// Forever is a wait without bound.
const Forever time.Duration = math.MaxInt64

// Until is when the wait is over.
func (r Request) Until() time.Time { return time.Now().Add(min(r.Wait, 1000*time.Hour)) }

// Grant is a lock that is held. Release and Extend have the error [NotHeld] where the server said so, [Failed], or any other, which is unknown.
type Grant struct {
	// Sent is when the successful attempt was sent; zero: not known.
	Sent time.Time
	// Token is the fencing token; nil: none.
	Token *int64
	// Lease is what was granted, where that is shorter than what was asked for.
	Lease   time.Duration
	Release func(context.Context) error
	// Extend sets the lease from now on; nil: not offered.
	Extend func(context.Context, time.Duration) error
	// Held is what the library believes; nil: it cannot be asked.
	Held func() bool
}

// Busy is the ending of an acquire: another certainly had the lock until the wait was over.
var Busy = errors.New("another has it")

// NotHeld is the ending of a release or an extend: the server did not have the lock as this grant's.
var NotHeld = errors.New("not held")

type failed struct{ error }
type unreachable struct{ error }

// Failed is an error of what certainly did not happen.
func Failed(err error) error { return failed{err} }

// Unreachable is an error of Connect: no server answered.
func Unreachable(err error) error { return unreachable{err} }

func (e failed) Unwrap() error { return e.error }

type object = map[string]any

// A line from locklab. Absent and null are the same.
type request struct {
	Id       uint64
	Op       string
	Protocol int
	Target   string
	Client   string
	Seed     uint64
	Options  struct {
		Durability string
		WatchdogMs int64 `json:"watchdog_ms"`
	}
	Lock      string
	Locks     json.RawMessage
	Kind      string
	Owner     string
	WaitMs    *int64 `json:"wait_ms"`
	LeaseMs   *int64 `json:"lease_ms"`
	Permits   int
	Grant     string
	Of        uint64
	Workload  string
	Tasks     int
	WarmupMs  int64 `json:"warmup_ms"`
	MeasureMs int64 `json:"measure_ms"`
	HoldUs    int64 `json:"hold_us"`
	ThinkUs   int64 `json:"think_us"`
	Prefix    string
}

type held struct {
	*Grant
	lost bool
}

type driver struct {
	lock    *Lock
	stdout  *os.File
	hello   Hello
	acquire Acquire
	out     sync.Mutex
	state   sync.Mutex
	number  uint64
	grants  map[string]*held
	calls   map[uint64]call
}

// What is under way: how it is given up, and what is closed once it is answered.
type call struct {
	cancel context.CancelFunc
	told   chan struct{}
}

// Serve answers locklab until it says bye or its input ends, and then ends the process.
func Serve(lock *Lock) {
	// What a library prints is log.
	stdout := os.Stdout
	os.Stdout = os.Stderr
	d := &driver{lock: lock, stdout: stdout, grants: map[string]*held{}, calls: map[uint64]call{}}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintf(os.Stderr, "not a request: %v: %s\n", err, lines.Text())
			os.Exit(1)
		}
		switch r.Op {
		case "hello":
			d.greet(r)
		case "bye":
			d.say(object{"id": r.Id, "ok": object{}})
			os.Exit(0)
		case "cancel":
			d.state.Lock()
			given, there := d.calls[r.Of]
			d.state.Unlock()
			if there {
				given.cancel()
			}
			d.say(object{"id": r.Id, "ok": object{}})
		default:
			ctx, cancel := context.WithCancel(context.Background())
			called := call{cancel, make(chan struct{})}
			d.state.Lock()
			d.calls[r.Id] = called
			d.state.Unlock()
			go func() {
				ending, body := d.answer(ctx, r, called.told)
				d.state.Lock()
				delete(d.calls, r.Id)
				d.state.Unlock()
				cancel()
				d.say(object{"id": r.Id, ending: body})
				close(called.told)
			}()
		}
	}
	os.Exit(0)
}

func (d *driver) say(line object) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	d.out.Lock()
	defer d.out.Unlock()
	d.stdout.Write(append(text, '\n'))
}

func (d *driver) greet(r request) {
	refuse := func(err error, more string) {
		body := object{"error": err.Error()}
		if more != "" {
			body[more] = true
		}
		d.say(object{"id": r.Id, "failed": body})
	}
	if r.Protocol != 1 {
		refuse(errors.New("this driver speaks version 1"), "")
		return
	}
	hello, err := target(r.Target)
	if err != nil {
		refuse(err, "")
		return
	}
	if !slices.Contains(d.lock.Topologies, hello.Shape) {
		refuse(fmt.Errorf("%s works on %s, not on %s", d.lock.Name, strings.Join(d.lock.Topologies, ", "), hello.Shape), "not_applicable")
		return
	}
	hello.Client, hello.Seed, hello.Durability = r.Client, r.Seed, r.Options.Durability
	hello.Watchdog = time.Duration(r.Options.WatchdogMs) * time.Millisecond
	d.hello = hello
	if d.acquire, err = d.lock.Connect(context.Background(), hello); err != nil {
		more := ""
		if errors.As(err, &unreachable{}) {
			more = "unreachable"
		}
		refuse(err, more)
		return
	}
	ok := object{"protocol": 1, "name": d.lock.Name, "version": d.lock.Version, "language": "go", "kinds": d.lock.Kinds,
		"topologies": d.lock.Topologies, "features": append([]string{"load", "prefix", "overlap", "mono", "cancel"}, d.lock.Features...)}
	if d.lock.Watchdog > 0 {
		ok["watchdog_ms"] = d.lock.Watchdog.Milliseconds()
	}
	if len(d.lock.Leaseless) > 0 {
		ok["leaseless"] = d.lock.Leaseless
	}
	d.say(object{"id": r.Id, "ok": ok})
}

// Takes a target's URL apart.
func target(text string) (Hello, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	hello := Hello{Target: text, TLS: strings.HasPrefix(scheme, "rediss") || scheme == "redlocks"}
	switch scheme {
	case "redis", "rediss":
		hello.Shape = "single"
	case "redis-sentinel", "rediss-sentinel":
		hello.Shape = "sentinel"
	case "redis-cluster", "rediss-cluster":
		hello.Shape = "cluster"
	case "redlock", "redlocks":
		hello.Shape = "masters"
	default:
		return hello, fmt.Errorf("the target's scheme `%s` is unknown", scheme)
	}
	rest, settings, _ := strings.Cut(rest, "?")
	if values, err := url.ParseQuery(settings); err == nil {
		hello.TLSCA = values.Get("tls-ca")
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		hello.User, hello.Password, _ = strings.Cut(rest[:at], ":")
		for _, text := range []*string{&hello.User, &hello.Password} {
			if plain, err := url.PathUnescape(*text); err == nil {
				*text = plain
			}
		}
		rest = rest[at+1:]
	}
	rest, hello.Path, _ = strings.Cut(rest, "/")
	for _, host := range strings.Split(rest, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host += map[bool]string{true: ":26379", false: ":6379"}[hello.Shape == "sentinel"]
		}
		hello.Hosts = append(hello.Hosts, host)
	}
	return hello, nil
}

func (d *driver) answer(ctx context.Context, r request, told chan struct{}) (string, object) {
	wrong := func(format string, args ...any) (string, object) {
		return "failed", object{"error": fmt.Sprintf(format, args...)}
	}
	if d.acquire == nil {
		return wrong("say hello first")
	}
	if r.Kind == "" {
		r.Kind = d.lock.Kinds[0]
	}
	switch r.Op {
	case "acquire", "load":
		if !slices.Contains(d.lock.Kinds, r.Kind) {
			return wrong("the kinds are %s, not %s", strings.Join(d.lock.Kinds, ", "), r.Kind)
		}
		if r.LeaseMs == nil && d.lock.Watchdog == 0 && !slices.Contains(d.lock.Leaseless, r.Kind) {
			return wrong("%s does not renew a lock by itself", d.lock.Name)
		}
		if r.Op == "load" {
			return d.load(ctx, r)
		}
		return d.grant(ctx, r, told)
	}
	if !slices.Contains([]string{"release", "extend", "held"}, r.Op) {
		return wrong("`%s` is not offered", r.Op)
	}
	d.state.Lock()
	grant := d.grants[r.Grant]
	d.state.Unlock()
	if grant == nil && r.Op == "held" {
		return "ok", object{"held": false}
	}
	if grant == nil {
		// It was released, or is nobody's.
		return "not_held", object{}
	}
	var err error
	switch {
	case r.Op == "held":
		d.state.Lock()
		believed := !grant.lost
		d.state.Unlock()
		return "ok", object{"held": believed && (grant.Held == nil || grant.Held())}
	case r.Op == "release":
		err = grant.Release(ctx)
	case r.Op == "extend" && grant.Extend != nil && r.LeaseMs != nil:
		err = grant.Extend(ctx, time.Duration(*r.LeaseMs)*time.Millisecond)
	default:
		return wrong("extend is not offered")
	}
	ending, body := end(err, "busy")
	if ending == "not_held" || r.Op == "release" && ending == "ok" {
		d.state.Lock()
		delete(d.grants, r.Grant)
		d.state.Unlock()
	}
	return ending, body
}

// The ending that an error stands for; one that such a call does not have is unknown.
func end(err error, not string) (string, object) {
	switch {
	case err == nil:
		return "ok", object{}
	case errors.Is(err, Busy) && not != "busy":
		return "busy", object{}
	case errors.Is(err, NotHeld) && not != "not_held":
		return "not_held", object{}
	case errors.As(err, &failed{}):
		return "failed", object{"error": err.Error()}
	}
	return "unknown", object{"error": err.Error()}
}

func (d *driver) grant(ctx context.Context, r request, told chan struct{}) (string, object) {
	d.state.Lock()
	d.number++
	name := fmt.Sprintf("g%d", d.number)
	d.state.Unlock()
	asked := Request{Lock: r.Lock, Kind: r.Kind, Owner: r.Owner, Wait: Forever, Permits: max(r.Permits, 1)}
	if asked.Owner == "" {
		asked.Owner = "of " + name
	}
	if json.Unmarshal(r.Locks, &asked.Locks) != nil || len(asked.Locks) == 0 {
		asked.Locks = []string{r.Lock}
	}
	asked.Lock = asked.Locks[0]
	if r.WaitMs != nil {
		asked.Wait = time.Duration(*r.WaitMs) * time.Millisecond
	}
	if r.LeaseMs != nil {
		asked.Lease = time.Duration(*r.LeaseMs) * time.Millisecond
	}
	// An event is about a grant that locklab knows: after its answer, and before its release.
	event := func(line object, lost bool) {
		line["grant"] = name
		go func() {
			<-told
			d.state.Lock()
			grant := d.grants[name]
			if grant != nil && lost {
				grant.lost = true
			}
			d.state.Unlock()
			if grant != nil {
				d.say(line)
			}
		}()
	}
	asked.Lost = func(reason string) {
		event(object{"event": "lost", "reason": reason, "at_mono_ns": mono(time.Now())}, true)
	}
	asked.Extended = func(lease time.Duration, sent time.Time) {
		event(object{"event": "extended", "lease_ms": lease.Milliseconds(), "at_mono_ns": mono(sent)}, false)
	}
	got, err := d.acquire(ctx, asked)
	if err != nil {
		return end(err, "not_held")
	}
	returned := monotonic()
	d.state.Lock()
	d.grants[name] = &held{Grant: got}
	d.state.Unlock()
	body := object{"grant": name, "returned_mono_ns": returned}
	if got.Token != nil {
		body["token"] = *got.Token
	}
	if !got.Sent.IsZero() {
		body["sent_mono_ns"] = mono(got.Sent)
	}
	if got.Lease > 0 {
		body["lease_ms"] = got.Lease.Milliseconds()
	}
	return "ok", body
}

// CLOCK_MONOTONIC, which Go's times have too but do not show.
func monotonic() int64 {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&at)), 0)
	return at.Nano()
}

// One moment on both clocks. The shown one is read first: if the process is stopped between the two, stamps are too early, which hides an
// overlap and never invents one.
var baseNs, base = monotonic(), time.Now()

func mono(at time.Time) int64 { return baseNs + int64(at.Sub(base)) }

// How long an acquire of the loop waits at most, and how long tasks may take to end after the window.
const loopWait, loopEnd = 60 * time.Second, 10 * time.Second

// What all tasks of a loop count together; times are nanoseconds since it began.
type loop struct {
	*driver
	request
	begun                                    time.Time
	from, to                                 int64
	failed, unknown                          atomic.Int64
	acquired, released, handoff, handedOther histogram
	locks                                    []spot
	overlap                                  atomic.Pointer[string]
	stopped                                  chan struct{}
	shared                                   bool
}

// One lock of a loop: who released it last and when, how many hold it, and a channel that the next grant closes.
type spot struct {
	sync.Mutex
	name     string
	sent     int64
	releaser int
	holders  int
	next     chan struct{}
}

func (d *driver) load(ctx context.Context, r request) (string, object) {
	locks := 1
	if r.Workload == "cycles" {
		locks = r.Tasks
		if json.Unmarshal(r.Locks, &locks) != nil {
			locks = r.Tasks
		}
	} else if r.Workload != "contended" && r.Workload != "chain" {
		return "failed", object{"error": fmt.Sprintf("the workloads are cycles, contended and chain, not `%s`", r.Workload)}
	}
	if r.Tasks < 1 || locks < 1 || r.MeasureMs < 1 {
		return "failed", object{"error": "a load needs tasks, locks and measure_ms"}
	}
	if r.Prefix == "" {
		r.Prefix = "locklab-load:"
	}
	l := &loop{driver: d, request: r, from: r.WarmupMs * 1e6, to: (r.WarmupMs + r.MeasureMs) * 1e6, locks: make([]spot, locks),
		stopped: make(chan struct{}), shared: slices.Contains([]string{"read", "semaphore", "permits"}, r.Kind)}
	for i := range l.locks {
		// An earlier loop's leftovers are not met.
		l.locks[i].name = fmt.Sprintf("%s%s:%d:%d", r.Prefix, d.hello.Client, os.Getpid(), i)
		l.locks[i].next = make(chan struct{})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cycles := make([]int64, r.Tasks)
	var tasks sync.WaitGroup
	l.begun = time.Now()
	for task := range cycles {
		tasks.Add(1)
		go func() {
			defer tasks.Done()
			cycles[task] = l.run(ctx, task)
		}()
	}
	l.sleepUntil(l.from)
	cpu := cpuNs()
	l.sleepUntil(l.to)
	cpu = cpuNs() - cpu
	close(l.stopped)
	late := time.AfterFunc(loopEnd, cancel)
	tasks.Wait()
	late.Stop()
	sum := int64(0)
	for _, of := range cycles {
		sum += of
	}
	body := object{"cycles": sum, "failed": l.failed.Load(), "unknown": l.unknown.Load(), "elapsed_ns": l.to - l.from, "client_cpu_ns": cpu,
		"per_task": cycles, "acquire_hist": l.acquired.encoded(), "release_hist": l.released.encoded()}
	if r.Workload != "cycles" && !l.shared {
		body["handoff_hist"], body["handoff_other_hist"] = l.handoff.encoded(), l.handedOther.encoded()
	}
	if overlap := l.overlap.Load(); overlap != nil {
		body["overlap"] = *overlap
	}
	return "ok", body
}

func (l *loop) now() int64 { return int64(time.Since(l.begun)) }

func (l *loop) sleepUntil(at int64) { time.Sleep(time.Duration(at - l.now())) }

func (l *loop) counts(at int64) bool { return at >= l.from && at < l.to }

func (l *loop) fault(err error) {
	if l.counts(l.now()) {
		if ending, _ := end(err, ""); ending == "unknown" {
			l.unknown.Add(1)
		} else {
			l.failed.Add(1)
		}
	}
	time.Sleep(time.Millisecond)
}

// Cycles of one task until the window is over; how many ended in it.
func (l *loop) run(ctx context.Context, task int) (cycles int64) {
	lock := &l.locks[task%len(l.locks)]
	asked := Request{Lock: lock.name, Locks: []string{lock.name}, Kind: l.Kind, Owner: fmt.Sprintf("load%d", task), Wait: loopWait,
		Permits: 1, Lost: func(string) {}, Extended: func(time.Duration, time.Time) {}}
	if l.LeaseMs != nil {
		asked.Lease = time.Duration(*l.LeaseMs) * time.Millisecond
	}
	for l.now() < l.to {
		called := l.now()
		grant, err := l.acquire(ctx, asked)
		got := l.now()
		if err != nil {
			l.fault(err)
			continue
		}
		lock.Lock()
		lock.holders++
		if lock.holders > 1 && !l.shared {
			said := fmt.Sprintf("%d held %s at once, %d ms after the loop began", lock.holders, lock.name, got/1e6)
			l.overlap.CompareAndSwap(nil, &said)
		}
		if lock.sent > 0 && l.counts(got) {
			l.handoff.record(got - lock.sent)
			if lock.releaser != task {
				l.handedOther.record(got - lock.sent)
			}
		}
		close(lock.next)
		lock.next = make(chan struct{})
		next := lock.next
		lock.Unlock()
		if l.HoldUs > 0 {
			time.Sleep(time.Duration(l.HoldUs) * time.Microsecond)
		}
		lock.Lock()
		lock.holders--
		sent := l.now()
		lock.sent, lock.releaser = sent, task
		lock.Unlock()
		err = grant.Release(ctx)
		done := l.now()
		if err != nil {
			l.fault(err)
		} else if l.counts(done) {
			cycles++
			l.acquired.record(got - called)
			l.released.record(done - sent)
		}
		if l.Workload == "chain" && l.Tasks > 1 {
			select {
			case <-next:
			case <-l.stopped:
			}
		}
		if l.ThinkUs > 0 {
			time.Sleep(time.Duration(l.ThinkUs) * time.Microsecond)
		}
	}
	return cycles
}

func cpuNs() int64 {
	var used syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return used.Utime.Nano() + used.Stime.Nano()
}

// Values up to an hour, in nanoseconds, with three significant digits: HdrHistogram's buckets.
type histogram struct{ counts [33 << 10]atomic.Int64 }

const hdrMost = int64(time.Hour)

func (h *histogram) record(ns int64) {
	ns = min(max(ns, 0), hdrMost)
	bucket := 53 - bits.LeadingZeros64(uint64(ns)|2047)
	h.counts[bucket<<10+int(ns>>bucket)].Add(1)
}

// HdrHistogram V2, compressed, in base64.
func (h *histogram) encoded() string {
	var counts []byte
	end := len(h.counts)
	for end > 0 && h.counts[end-1].Load() == 0 {
		end--
	}
	for i := 0; i < end; i++ {
		n := h.counts[i].Load()
		if n == 0 {
			for ; i < end && h.counts[i].Load() == 0; i++ {
				n--
			}
			i--
		}
		// Zigzag, seven bits at a time: a negative number is so many zeros.
		counts = binary.AppendVarint(counts, n)
	}
	plain := binary.BigEndian.AppendUint32(nil, 0x1c849313)
	plain = binary.BigEndian.AppendUint32(plain, uint32(len(counts)))
	plain = binary.BigEndian.AppendUint32(plain, 0)
	plain = binary.BigEndian.AppendUint32(plain, 3)
	plain = binary.BigEndian.AppendUint64(plain, 1)
	plain = binary.BigEndian.AppendUint64(plain, uint64(hdrMost))
	plain = binary.BigEndian.AppendUint64(plain, math.Float64bits(1))
	plain = append(plain, counts...)
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	z.Write(plain)
	z.Close()
	text := binary.BigEndian.AppendUint32(nil, 0x1c849314)
	text = binary.BigEndian.AppendUint32(text, uint32(packed.Len()))
	return base64.StdEncoding.EncodeToString(append(text, packed.Bytes()...))
}
