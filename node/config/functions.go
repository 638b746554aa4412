package config

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"

	"cqld/udf/value"
)

// The range of the bounds of functions. A WebAssembly memory has pages of 64 KiB. A memory below one page is not enough
// for any function. The upper bound is far below the 4 GiB that WebAssembly can address, because several calls run at a
// time.
const (
	functionMemoryMin = 64 << 10
	functionMemoryMax = 1 << 30
)

// functionSettings returns the options of functions that users define. The names are Cassandra's, except for the bounds
// of operations, memory and results, which Cassandra lacks. max_operations counts steps of the interpreter, which makes
// the outcome of a call independent of the load; the timeouts are in wall time and are the second bound.
func functionSettings() map[string]setting {
	return map[string]setting{
		"user_defined_functions_enabled": truth(func(o *Options) *bool { return &o.Functions.Enabled }),
		"user_defined_functions_warn_timeout": duration(func(o *Options) *time.Duration {
			return &o.Functions.Limits.Warn
		}),
		"user_defined_functions_fail_timeout": duration(func(o *Options) *time.Duration {
			return &o.Functions.Limits.Time
		}),
		"user_defined_functions_max_operations":  setFunctionOperations,
		"user_defined_functions_max_memory":      size64(func(o *Options) *int64 { return &o.Functions.Limits.Bytes }),
		"user_defined_functions_max_result_size": size64(func(o *Options) *int64 { return &o.Functions.Limits.Output }),
		"user_function_timeout_policy":           setFunctionTimeoutPolicy,
	}
}

// setFunctionOperations reads the number of operations of one call. A call with more operations is stopped
// (docs/adr/0039).
func setFunctionOperations(o *Options, v *yaml.Node) error {
	// There is no value for no bound: a call that never ends would keep a processor.
	n, err := strconv.ParseInt(v.Value, 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("%q is not a positive whole number", v.Value)
	}
	o.Functions.Limits.Steps = n
	return nil
}

// setFunctionTimeoutPolicy accepts the policy that does not stop the process. Cassandra's others exist because it
// cannot stop a call. A call that takes too long is stopped in any case.
func setFunctionTimeoutPolicy(_ *Options, v *yaml.Node) error {
	// There is nothing to store, because the behavior is always the same.
	switch v.Value {
	case "ignore":
		return nil
	case "die", "die_immediate":
		return fmt.Errorf("%s is not supported: calls that take too long are stopped, and the node continues; write "+
			"ignore", v.Value)
	}
	return fmt.Errorf("%q is not ignore", v.Value)
}

// validateFunctions returns an error if the bounds of functions contradict each other. Every field has a default, so
// none is zero. Only the first contradiction is returned.
func (o *Options) validateFunctions() error {
	// The bounds of operations have been checked when they were read.
	l := o.Functions.Limits
	switch {
	case l.Time <= 0 || l.Warn <= 0:
		return errors.New("user_defined_functions_warn_timeout and user_defined_functions_fail_timeout must be " +
			"positive")
	case l.Time < l.Warn:
		return errors.New("user_defined_functions_warn_timeout must not be longer than " +
			"user_defined_functions_fail_timeout")
	case l.Bytes < functionMemoryMin || l.Bytes > functionMemoryMax:
		return fmt.Errorf("user_defined_functions_max_memory must be between %d KiB and %d MiB", functionMemoryMin>>10,
			functionMemoryMax>>20)
	// The result is part of the memory of the call.
	case l.Output < 1 || l.Output > l.Bytes:
		return errors.New("user_defined_functions_max_result_size must be positive, and not more than " +
			"user_defined_functions_max_memory")
	}
	return nil
}

// functionValues returns the values of these options, as system_views.settings shows them. The names are the options',
// in the form that the file reads.
func (o *Options) functionValues() map[string]string {
	return map[string]string{
		"user_defined_functions_enabled":         strconv.FormatBool(o.Functions.Enabled),
		"user_defined_functions_warn_timeout":    o.Functions.Limits.Warn.String(),
		"user_defined_functions_fail_timeout":    o.Functions.Limits.Time.String(),
		"user_defined_functions_max_operations":  strconv.FormatInt(o.Functions.Limits.Steps, 10),
		"user_defined_functions_max_memory":      strconv.FormatInt(o.Functions.Limits.Bytes>>10, 10) + "KiB",
		"user_defined_functions_max_result_size": strconv.FormatInt(o.Functions.Limits.Output>>10, 10) + "KiB",
		"user_function_timeout_policy":           "ignore",
	}
}

// defaultFunctionLimits returns the bounds of one call that a node has without other options. Warn and Time are
// Cassandra's defaults. The numbers of steps and bytes are in docs/limits.md.
func defaultFunctionLimits() value.Limits {
	return value.Limits{Steps: 5_000_000, Bytes: 64 << 20, Output: 16 << 20, Warn: 500 * time.Millisecond,
		Time: 1500 * time.Millisecond}
}
