package repair

import (
	"testing"

	"cqld/ring"
)

// purging prepares a job of a table with a low bound.
func purging(s *stepper) { s.v.lowBound = s.now.UnixMicro() }

const (
	clean = `list 1 -> spend 7 a
		resume a -> list 2
		list 2 -> spend 7 b
		resume b -> list 3
		list 3 -> spend 7 c
		resume c -> list 1
		list 1 -> spend 7 d
		resume d -> list 2
		list 2 -> spend 7 e
		resume e -> list 3
		list 3 -> spend 7 f
		resume f -> hash 1, hash 2, hash 3
		hash 1 5 | hash 2 5 | hash 3 5 -> spend 10, spend 10, spend 10 g
		resume g -> forget 1
		`
	unpurged = `hash 1 5 | hash 2 5 | hash 3 5 -> spend 10, spend 10, spend 10 `
)

// TestStepsOfAPurge lists the effects of each event of a job that purges Paxos state.
func TestStepsOfAPurge(t *testing.T) {
	playAll(t, []stepTest{
		{name: "nothing is listed", prepare: purging, script: `start -> load
			load -> progress, list 1
			` + clean + `
			forget 1 >k -> spend 7 h
			resume h -> forget 1 after k
			forget 1 -> spend 7 i
			resume i -> forget 2
			forget 2 fails -> pause 1s j
			resume j -> forget 2
			forget 2 -> spend 7 k
			resume k -> forget 3
			forget 3 -> spend 7 l
			resume l -> notify 1, notify 2, notify 3`},
		{name: "a proposal at the last replica", prepare: purging, script: `start -> load
			load -> progress, list 1
			list 1 -> spend 7 a
			resume a -> list 2
			list 2 -> spend 7 b
			resume b -> list 3
			list 3 k l >x -> spend 7 c
			resume c -> settle k
			settle fails -> pause 1s d
			resume d -> settle k
			settle -> settle l
			settle | list 3 -> list 3 after x, spend 7 e
			resume e -> list 1`},
		{name: "a proposal before the state is removed", prepare: purging, script: `start -> load
			load -> progress, list 1
			` + clean + `
			forget 1 k -> spend 7, notify 1 of nothing, notify 2 of nothing, notify 3 of nothing
			forget 1 ->
			notify 1 | notify 2 | notify 3 -> store (0, 100], progress, finish ok 1 unpurged`},
		{name: "a replica that does not list", prepare: purging, script: `start -> load
			load -> progress, list 1
			list 1 fails -> pause 1s a
			resume a -> list 1
			list 1 fails -> pause 2s b
			resume b -> list 1
			list 1 fails -> hash 1, hash 2, hash 3
			` + unpurged + `c
			resume c -> notify 1 of nothing, notify 2 of nothing, notify 3 of nothing`},
		{name: "a proposal that is not decided", prepare: purging, script: `start -> load
			load -> progress, list 1
			list 1 k -> spend 7 a
			resume a -> settle k
			settle fails -> pause 1s b
			resume b -> settle k
			settle fails -> pause 2s c
			resume c -> settle k
			settle fails -> hash 1, hash 2, hash 3
			settle ->`},
		{name: "proposals in each round", prepare: func(s *stepper) {
			purging(s)
			s.limits.Rounds = 1
			s.v.topology = ring.NewTopology(1, stepNodes())
		}, script: `start -> load
			load -> progress, list 1
			list 1 k -> spend 7 a
			resume a | settle | list 2 -> settle k, list 2, spend 7 b
			resume b | list 3 -> list 3, spend 7 c
			resume c | list 1 | resume d -> list 1, spend 7 d, list 2
			list 2 l -> spend 7 e
			resume e | settle | list 3 -> settle l, list 3, spend 7 f
			resume f | list 1 | resume g -> list 1, spend 7 g, list 2
			list 2 | resume h | list 3 k -> spend 7 h, list 3, spend 7 i
			resume i -> settle k
			settle -> hash 1, hash 2, hash 3`},
		{name: "a refusal", prepare: purging, script: `start -> load
			load -> progress, list 1
			list 1 refuses -> pause 1s a
			resume a -> progress, list 1`},
		{name: "a refusal during a truncation", prepare: purging, script: `start -> load
			load -> progress, list 1
			list 1 refuses truncating -> pause 1s a
			resume a -> list 1`},
		{name: "one replica", prepare: func(s *stepper) {
			purging(s)
			s.m.job.PaxosOnly = true
			r := s.v.schema.Table("ks", "t").Replication
			r.Factor = 1
			s.v.schema.Table("ks", "t").Replication = r
		}, script: `start -> load
			load -> progress, list 1
			list 1 | resume a | list 1 -> spend 7 a, list 1, spend 7 b
			resume b -> forget 1
			forget 1 -> spend 7 c
			resume c -> store (0, 100], progress, finish ok`},
	})
}

// TestStepsBeforeTheFirstRange lists the effects of each event until the low bound is raised.
func TestStepsBeforeTheFirstRange(t *testing.T) {
	may := func(s *stepper) { s.m.mayRaise = true }
	const ranges = "progress, hash 1, hash 2, hash 3"
	start := `start -> load
		load -> pause 30s a, scan
		`
	playAll(t, []stepTest{
		{name: "no Paxos state", prepare: may, script: start + `scan no -> ` + ranges + `
			resume a ->
			` + unpurged + `b
			resume b -> notify 1, notify 2, notify 3`},
		{name: "Paxos state", prepare: may, script: start + `scan yes -> raise`, change: purging,
			after: `raise -> progress, list 1`},
		{name: "a low bound that is not raised", prepare: may, script: start + `scan yes -> raise
			raise -> ` + ranges + `
			` + unpurged + `b
			resume b -> notify 1 of nothing, notify 2 of nothing, notify 3 of nothing`},
		{name: "a scan that fails", prepare: may, script: start + `scan fails -> ` + ranges + `
			` + unpurged + `b
			resume b -> notify 1 of nothing, notify 2 of nothing, notify 3 of nothing`},
		{name: "no leader", prepare: may, script: start + `scan yes -> raise
			resume a -> ` + ranges + `
			raise | raise ->`},
		{name: "a scan that is late", prepare: may, script: start + `resume a -> ` + ranges + `
			scan yes -> raise
			raise ->`},
		{name: "a low bound of long ago", prepare: func(s *stepper) {
			may(s)
			s.v.lowBound = 1
		}, script: `start -> load
			load -> pause 30s a, raise
			raise -> progress, list 1`},
		{name: "a low bound that is new", prepare: func(s *stepper) {
			may(s)
			purging(s)
		}, script: `start -> load
			load -> progress, list 1`},
		{name: "a job that compares only", prepare: func(s *stepper) {
			may(s)
			s.m.job.Urgent = true
		}, script: `start -> load
			load -> ` + ranges},
	})
}
