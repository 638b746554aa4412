package java

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"cqld/types"
	"cqld/udf/value"
)

// argument returns the value of an argument in a golden file.
func argument(t *types.Type, text string) (value.Value, error) {
	switch kind := t.Kind(); {
	case text == "null":
		return nil, nil
	case kind == types.Text:
		return text, nil
	case kind == types.Boolean:
		return strconv.ParseBool(text)
	case kind == types.Double, kind == types.Float:
		bits := 64
		if kind == types.Float {
			bits = 32
		}
		return strconv.ParseFloat(text, bits)
	}
	return strconv.ParseInt(text, 10, 64)
}

// calledBody compiles and calls the body of a command: "call int a=(int,7) b=(text,x)" has the type of the result, and
// the types and values of the arguments. With called, the function is called on null.
func calledBody(t *testing.T, d *datadriven.TestData) string {
	f := Function{Body: d.Input}
	var args []value.Value
	for _, a := range d.CmdArgs {
		switch {
		case a.Key == "called":
			f.CalledOnNull = true
		case len(a.Vals) == 0:
			f.Returns = parsed(t, a.Key)
		default:
			of := parsed(t, a.Vals[0])
			arg, err := argument(of, strings.Join(a.Vals[1:], ","))
			if err != nil {
				d.Fatalf(t, "%v", err)
			}
			f.ArgNames, f.ArgTypes, args = append(f.ArgNames, a.Key), append(f.ArgTypes, of), append(args, arg)
		}
	}
	p, err := Compile(f)
	var unsupported *Unsupported
	var refused *Invalid
	switch {
	case errors.As(err, &unsupported):
		return fmt.Sprintf("unsupported: %v\n", err)
	case errors.As(err, &refused):
		return fmt.Sprintf("invalid: %v\n", err)
	case err != nil:
		return fmt.Sprintf("%T: %v\n", err, err)
	}
	meter := value.NewMeter(value.Limits{Steps: 100_000, Bytes: 1 << 20}, nil)
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
}

// TestGoldens compiles and calls bodies: their results, as a Java virtual machine returns them, with the steps that
// they were charged, and their errors. What is outside the subset is unsupported; what no Java compiler accepts is
// invalid.
func TestGoldens(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, calledBody)
	})
}
