// Asks Chaos Mesh's own types what its schemas do not know: each object of standard input, a JSON document per line, is read strictly and
// validated as its admission webhook would. A line of the answer is `ok` or what is wrong.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"k8s.io/apimachinery/pkg/runtime"
)

type chaos interface {
	Default(context.Context, runtime.Object) error
	Validate() ([]string, error)
	runtime.Object
}

func judge(line []byte) error {
	var kind struct{ Kind string }
	if err := json.Unmarshal(line, &kind); err != nil {
		return err
	}
	all := map[string]chaos{
		"PodChaos":     &v1alpha1.PodChaos{},
		"NetworkChaos": &v1alpha1.NetworkChaos{},
		"TimeChaos":    &v1alpha1.TimeChaos{},
		"IOChaos":      &v1alpha1.IOChaos{},
		"StressChaos":  &v1alpha1.StressChaos{},
	}
	object, known := all[kind.Kind]
	if !known {
		return fmt.Errorf("no kind of ours: %q", kind.Kind)
	}
	reader := json.NewDecoder(bytes.NewReader(line))
	reader.DisallowUnknownFields()
	if err := reader.Decode(object); err != nil {
		return err
	}
	if err := object.Default(context.Background(), object); err != nil {
		return err
	}
	_, err := object.Validate()
	return err
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if err := judge(lines.Bytes()); err != nil {
			fmt.Println("refused:", err)
		} else {
			fmt.Println("ok")
		}
	}
}
