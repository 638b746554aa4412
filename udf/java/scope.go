package java

import "fmt"

// variable is a local variable or a parameter. Its slot is unique: slots of variables that are out of scope are not
// reused.
type variable struct {
	// The declared type, or for var the type of the initial value.
	t *jtype
	// The index in frame.vars.
	slot int
	// The position of a parameter, from 1; 0 for local variables.
	param int
	// A final variable cannot be assigned after its declaration; assignable checks that.
	final bool
}

// scopes contains the visible variables at the compiler's position, and allocates the slots of all variables of the
// body. Names are resolved when the body is compiled.
type scopes struct {
	// The visible variables by name. The innermost scope is the last one.
	all   []map[string]*variable
	slots int
	// named counts the slots of named variables, which variablesMax bounds.
	named int
}

// open begins a scope, and close ends it. A block, a branch, a loop and the body have one each.
func (s *scopes) open()  { s.all = append(s.all, map[string]*variable{}) }
func (s *scopes) close() { s.all = s.all[:len(s.all)-1] }

// declare adds a variable to the innermost scope. The name may be the name of a class, but not of a parameter or of
// another visible variable.
func (s *scopes) declare(name string, t *jtype, line int) *variable {
	// A local variable must not hide another one, in contrast to a field.
	if s.find(name) != nil {
		invalid(line, "Duplicate local variable %s", name)
	}
	// Slots of method calls are not counted: the length of the body bounds them.
	if s.named++; s.named > variablesMax {
		unsupported(line, fmt.Sprintf("more than %d variables", variablesMax))
	}
	v := &variable{t: t, slot: s.slot()}
	s.all[len(s.all)-1][name] = v
	return v
}

// slot returns a new place in frame.vars, for a variable or for a value during a call of a method. Slots are never used
// twice, so nested calls do not overwrite each other's values. The frame grows with the number of slots, which the
// meter counts.
func (s *scopes) slot() int {
	s.slots++
	return s.slots - 1
}

// find returns a visible variable, or nil. It searches from the innermost scope to the parameters. nil is not an error:
// the name may be a class.
func (s *scopes) find(name string) *variable {
	for i := len(s.all) - 1; i >= 0; i-- {
		if v := s.all[i][name]; v != nil {
			return v
		}
	}
	return nil
}
