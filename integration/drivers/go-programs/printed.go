package main

import (
	"fmt"
	"reflect"
)

// printed returns the value that a destination of Scan points to.
func printed(v any) string {
	r := reflect.ValueOf(v)
	for r.Kind() == reflect.Pointer && !r.IsNil() {
		if s, ok := r.Interface().(fmt.Stringer); ok {
			return s.String()
		}
		r = r.Elem()
	}
	return fmt.Sprint(r.Interface())
}
