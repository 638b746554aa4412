package lint

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// mayBlock declares for each internode verb whether its handler may wait for the disk. A handler that does not block
// runs on the goroutine of a peer's stream, before the heartbeats and writes that follow.
func mayBlock() map[string]bool {
	return map[string]bool{
		// These append to storage's queue, to memory or to the queue of the cluster's goroutine.
		"VerbMutation": false, "VerbReadRepair": false, "VerbHint": false, "VerbTurn": false, "VerbPass": false,
		"VerbRaft": false, "VerbJoin": false, "VerbHeartbeat": false, "VerbApplied": false,
		"VerbHolds": false,
		// These pass their reads to a worker, or to a bounded goroutine.
		"VerbPaxosPrepare": false, "VerbPaxosAccept": false, "VerbPaxosCommit": false, "VerbCounter": false,
		"VerbStream": false,
		// These read, or wait for a sync.
		"VerbRead": true, "VerbDigest": true, "VerbNewest": true, "VerbPartitions": true, "VerbSearch": true,
		"VerbTruncate":   true,
		"VerbBatchStore": true, "VerbBatchRemove": true, "VerbMerkle": true, "VerbRepaired": true,
		"VerbPaxosPurge": true,
		"VerbControl":    true,
	}
}

// TestEveryVerbDeclaresBlocking checks that each verb is registered once, with a unique name, and with the same
// declaration as in mayBlock.
func TestEveryVerbDeclaresBlocking(t *testing.T) {
	all := parsePackages(t)
	registered, names := map[string]bool{}, map[string]string{}
	for _, r := range all {
		for file, f := range r.files {
			// The simulation carries requests of backups by the verb of the control ports, which it does not have.
			if strings.HasPrefix(file, "simulation/") {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				lit, ok := n.(*ast.CompositeLit)
				if !ok || !isSelector(lit.Type, "messaging", "Service") || len(lit.Elts) == 0 {
					return true
				}
				verb, name, blocking := service(lit)
				want, known := mayBlock()[verb]
				switch {
				case !known:
					t.Errorf("%s registers %q: mayBlock does not say whether it may block", file, verb)
				case registered[verb]:
					t.Errorf("%s registers %s, which is registered elsewhere", file, verb)
				case name == "" || names[name] != "":
					t.Errorf("%s registers %s as %q, which is no name or that of %s", file, verb, name, names[name])
				case blocking != want:
					t.Errorf("%s registers %s with Blocking %t", file, verb, blocking)
				}
				registered[verb], names[name] = true, verb
				return true
			})
		}
	}
	for _, f := range all["messaging"].files {
		for name, object := range f.Scope.Objects {
			if object.Kind == ast.Con && strings.HasPrefix(name, "Verb") && !registered[name] {
				t.Errorf("%s is not registered", name)
			}
		}
	}
}

// service returns the fields of a messaging.Service literal.
func service(lit *ast.CompositeLit) (verb, name string, blocking bool) {
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch v := kv.Value.(type) {
		case *ast.SelectorExpr:
			if key(kv) == "Verb" {
				verb = v.Sel.Name
			}
		case *ast.BasicLit:
			if key(kv) == "Name" && v.Kind == token.STRING {
				name = strings.Trim(v.Value, `"`)
			}
		case *ast.Ident:
			if key(kv) == "Blocking" {
				blocking = v.Name == "true"
			}
		}
	}
	return verb, name, blocking
}

func key(kv *ast.KeyValueExpr) string {
	if id, ok := kv.Key.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func isSelector(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == pkg && s.Sel.Name == name
}
