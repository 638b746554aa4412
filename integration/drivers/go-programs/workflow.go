package main

import "fmt"

// workflow is an engine for workflows: the executions of a shard are one partition, which it reads by plain indexes,
// and with ALLOW FILTERING.
func workflow(p *program) {
	p.check("schema", func() error {
		return p.all(
			`CREATE TABLE executions (shard int, type int, namespace text, workflow text, run uuid, state int, queue text, visible timestamp, task bigint, payload blob, encoding text,
				next_event bigint, version bigint, PRIMARY KEY (shard, type, namespace, workflow, run, visible, task)) WITH compaction = {'class': 'LeveledCompactionStrategy'}`,
			`CREATE TABLE queue (queue text, type int, level int, id bigint, payload blob, owner text STATIC, PRIMARY KEY ((queue, type), level, id))`,
			`CREATE INDEX ON executions (queue)`, `CREATE INDEX executions_by_state ON executions (state)`,
			`CREATE INDEX IF NOT EXISTS executions_by_state ON executions (state)`,
			`CREATE INDEX ON queue (owner)`)
	})
	p.check("writes", func() error {
		for i := range 40 {
			err := p.Query(`INSERT INTO executions (shard, type, namespace, workflow, run, state, queue, visible, task, payload, next_event, version)
				VALUES (?, 1, 'default', ?, 5f3e5bb0-0000-4000-8000-000000000001, ?, ?, 0, ?, 0xcafe, ?, 1)`,
				i%2, fmt.Sprintf("w%02d", i), i%4, fmt.Sprint("q", i%3), int64(i), int64(i)).Exec()
			if err != nil {
				return err
			}
		}
		return nil
	})
	p.check("partition", func() error {
		const run = ` AND run = 5f3e5bb0-0000-4000-8000-000000000001`
		return first(
			p.want([]string{"w04", "w12", "w16", "w24", "w28", "w36"}, `SELECT workflow FROM executions WHERE shard = 0 AND type = 1 AND state = 0 AND next_event > 0
				AND queue IN ('q0', 'q1') ALLOW FILTERING`),
			p.want([]string{"w06", "w18", "w30"}, `SELECT workflow FROM executions WHERE shard = ? AND queue = ? AND state = ? ALLOW FILTERING`, 0, "q0", 2),
			p.want([]string{"w37", "w39"}, `SELECT workflow FROM executions WHERE shard = 1 AND next_event >= 36 ALLOW FILTERING`),
			p.want([]string{"20"}, `SELECT count(*) FROM executions WHERE shard = 1 AND version = 1 ALLOW FILTERING`),
			p.refused("ALLOW FILTERING", `SELECT * FROM executions WHERE shard = 1 AND version = 1`),
			p.want([]string{"w02"}, `SELECT workflow FROM executions WHERE shard = 0 AND type = 1 AND namespace = 'default' AND workflow = 'w02'`+run))
	})
	p.check("conditional", func() error {
		const where = ` WHERE shard = 1 AND type = 1 AND namespace = 'default' AND workflow = 'w01' AND run = 5f3e5bb0-0000-4000-8000-000000000001 AND visible = 0 AND task = 1`
		old := map[string]any{}
		applied, err := p.Query(`UPDATE executions SET state = 9, version = 2` + where +
			` IF version = 1 AND next_event = 1`).MapScanCAS(old)
		if err != nil || !applied {
			return fmt.Errorf("not applied: %v %w", old, err)
		}
		old = map[string]any{}
		applied, err = p.Query(`UPDATE executions SET state = 8` + where + ` IF version = 1`).MapScanCAS(old)
		if err != nil || applied || fmt.Sprint(old["version"]) != "2" {
			return fmt.Errorf("applied %v: %v %w", applied, old, err)
		}
		return first(p.want([]string{"w01"}, `SELECT workflow FROM executions WHERE state = 9`),
			p.want([]string{}, `SELECT workflow FROM executions WHERE shard = 1 AND state = 1 AND next_event = 1 ALLOW FILTERING`))
	})
	p.check("leases", func() error {
		return first(p.all(`INSERT INTO queue (queue, type, owner) VALUES ('a', 1, 'host1')`,
			`INSERT INTO queue (queue, type, owner) VALUES ('b', 1, 'host2')`,
			`INSERT INTO queue (queue, type, level, id) VALUES ('a', 1, 0, 7)`,
			`INSERT INTO queue (queue, type, level, id) VALUES ('a', 1, 0, 8)`),
			p.want([]string{"a 7", "a 8"}, `SELECT queue, id FROM queue WHERE owner = 'host1'`),
			p.all(`UPDATE queue SET owner = 'host2' WHERE queue = 'a' AND type = 1`,
				`DELETE FROM queue WHERE queue = 'a' AND type = 1 AND level = 0 AND id < 8`),
			p.want([]string{"a 8"}, `SELECT queue, id FROM queue WHERE owner = 'host2' AND id = 8 ALLOW FILTERING`))
	})
}
