package lua

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/cockroachdb/apd/v3"
	"github.com/cockroachdb/datadriven"

	"cqld/udf/value"
)

// argument returns the value of an argument in a golden file: null, a number with or without a decimal point, or text.
func argument(text string) value.Value {
	if text == "null" {
		return nil
	}
	if n, ok := new(big.Int).SetString(text, 10); ok {
		if n.IsInt64() {
			return n.Int64()
		}
		return n
	}
	if d, _, err := apd.NewFromString(text); err == nil {
		return d
	}
	return text
}

// TestGoldens compiles and calls bodies: their results with the steps that they were charged, and their errors. A call
// has the arguments a, b and c.
func TestGoldens(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var args []value.Value
			for _, a := range d.CmdArgs {
				args = append(args, argument(strings.Join(a.Vals, "")))
			}
			p, err := Compile(d.Input, []string{"a", "b", "c"}[:len(args)])
			if err != nil {
				return fmt.Sprintf("refused: %v\n", err)
			}
			meter := value.NewMeter(limits(), nil)
			result, err := p.Run(meter, args)
			var fault *value.Fault
			switch {
			case errors.As(err, &fault):
				return fmt.Sprintf("fault: %v\n", err)
			case err != nil:
				return fmt.Sprintf("%T: %v\n", err, err)
			}
			steps, _ := meter.Used()
			return fmt.Sprintf("%s (steps: %d)\n", value.Describe(result), steps)
		})
	})
}
