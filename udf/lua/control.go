package lua

import (
	"github.com/yuin/gopher-lua/ast"

	"cqld/udf/value"
)

// signal determines how the enclosing statement continues.
type signal uint8

// proceed is the zero value: a statement that does nothing special.
const (
	proceed signal = iota
	leaveLoop
	leaveFunction
)

// stmt executes a statement. It is immutable, and may be executed concurrently. It reports to the enclosing statement
// by its signal; errors are panics.
type stmt func(fr *frame) signal

// run executes statements until one of them leaves the list.
func run(fr *frame, list []stmt) signal {
	for _, s := range list {
		// The caller handles the signal.
		if sig := s(fr); sig != proceed {
			return sig
		}
	}
	return proceed
}

// sequence returns a statement that executes a block. The block has no effect on control: signals pass through. Its
// scope was resolved by the compiler, so nothing is opened or closed here.
func sequence(list []stmt) stmt {
	return func(fr *frame) signal { return run(fr, list) }
}

// truth returns whether a value is true in conditions. 0 and "" are true in Lua.
func truth(v value.Value) bool { return v != nil && v != false }

// branch compiles if. The parser makes elseif an if within else. Each if is one step, also an elseif.
func (f *function) branch(s *ast.IfStmt) stmt {
	condition := f.expr(s.Condition)
	then, otherwise := f.block(s.Then), f.block(s.Else)
	return func(fr *frame) signal {
		fr.m.Step()
		if truth(condition(fr)) {
			return run(fr, then)
		}
		// Without else the list is empty.
		return run(fr, otherwise)
	}
}

// loopBody compiles a block in which break is allowed. f.loops counts open loops, so that a break outside of a loop
// is an error.
func (f *function) loopBody(list []ast.Stmt) []stmt {
	f.loops++
	// A function within the body counts its own loops: break does not leave it.
	defer func() { f.loops-- }()
	return f.block(list)
}

// while compiles while. Each iteration is a step, so the bound ends an endless loop. The condition is evaluated
// before each round.
func (f *function) while(s *ast.WhileStmt) stmt {
	condition, body := f.expr(s.Condition), f.loopBody(s.Stmts)
	return func(fr *frame) signal {
		for {
			fr.m.Step()
			if !truth(condition(fr)) {
				return proceed
			}
			switch run(fr, body) {
			case leaveLoop:
				return proceed
			// return within the loop ends all blocks up to the call.
			case leaveFunction:
				return leaveFunction
			case proceed:
			}
		}
	}
}

// repeat compiles repeat … until; the condition sees the variables of the body. The body is executed at least once.
// break leaves it without evaluating the condition.
func (f *function) repeat(s *ast.RepeatStmt) stmt {
	f.loops++
	f.open()
	// Not a block: the scope must stay open for the condition.
	body := f.statements(s.Stmts)
	until := f.expr(s.Condition)
	f.close()
	f.loops--
	return func(fr *frame) signal {
		for {
			// Each round is a step.
			fr.m.Step()
			switch run(fr, body) {
			case leaveLoop:
				return proceed
			case leaveFunction:
				return leaveFunction
			case proceed:
			}
			// The condition sees the boxes that the body's variables have in this round.
			if truth(until(fr)) {
				return proceed
			}
		}
	}
}

// numericFor compiles for i = a, b, c. The bounds may be numbers of any kind. Integers that would overflow end the
// loop.
func (f *function) numericFor(s *ast.NumberForStmt) stmt {
	// Compiled before the variable is declared, and evaluated once.
	from, to := f.expr(s.Init), f.expr(s.Limit)
	by := func(*frame) value.Value { return int64(1) }
	if s.Step != nil {
		by = f.expr(s.Step)
	}
	// The variable exists in the body only.
	f.open()
	slot := f.declare(s.Name, s.Line())
	body := f.loopBody(s.Stmts)
	f.close()
	line := s.Line()
	return func(fr *frame) signal {
		// From left to right, once.
		i, limit, step := from(fr), to(fr), by(fr)
		// Strings are not converted here, as in later versions of Lua.
		if !value.IsNumber(i) || !value.IsNumber(limit) || !value.IsNumber(step) {
			fail(line, "the bounds of 'for' must be numbers")
		}
		// The sign of the step. ok is false for NaN, which has none. The comparison with a limit depends on the sign.
		direction, ok := value.Compare(fr.m, step, int64(0))
		if direction == 0 || !ok {
			fail(line, "'for' step is zero")
		}
		for {
			fr.m.Step()
			if order, ok := value.Compare(fr.m, i, limit); !ok || order*direction > 0 {
				return proceed
			}
			// Assignments to the variable in the body do not affect the loop.
			fr.locals[slot] = &box{i}
			switch run(fr, body) {
			case leaveLoop:
				return proceed
			case leaveFunction:
				return leaveFunction
			case proceed:
			}
			// int64 may wrap around, which the comparison below detects.
			next := value.Arith(fr.m, '+', i, step)
			if order, ok := value.Compare(fr.m, next, i); !ok || order*direction <= 0 {
				return proceed // the sum has wrapped around or is too small to count
			}
			i = next
		}
	}
}

// genericFor compiles for k, v in f, s, c: f(s, c) is called until its first result is nil. The function may be one of
// the script, or the step that pairs and ipairs return. pairs over a table of n keys takes at least n steps.
func (f *function) genericFor(s *ast.GenericForStmt) stmt {
	values := f.list(s.Exprs)
	f.open()
	slots := make([]int, len(s.Names))
	for i, name := range s.Names {
		slots[i] = f.declare(name, s.Line())
	}
	// In the scope of the variables, and with a scope of its own.
	body := f.loopBody(s.Stmts)
	f.close()
	line := s.Line()
	return func(fr *frame) signal {
		vs := values(fr)
		// Evaluate these once. Assignments to the variables in the body do not change the control value.
		step, state, control := at(vs, 0), at(vs, 1), at(vs, 2)
		for {
			fr.m.Step()
			// Each iteration is a call, which counts its steps and memory.
			results := fr.call(step, []value.Value{state, control}, line)
			if control = at(results, 0); control == nil {
				return proceed
			}
			for i, slot := range slots {
				// Create new boxes, so that closures of earlier iterations keep their values.
				fr.locals[slot] = &box{at(results, i)}
			}
			switch run(fr, body) {
			case leaveLoop:
				return proceed
			case leaveFunction:
				return leaveFunction
			case proceed:
			}
		}
	}
}
