package main

import (
	"fmt"
	"time"
)

// visibility is a store of the executions of a domain, by their time: a partition, a range of clusterings, and an
// indexed column, without ALLOW FILTERING.
func visibility(p *program) {
	base := time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC)
	p.check("schema", func() error {
		return p.all(
			`CREATE TABLE open (domain uuid, part int, started timestamp, run uuid, workflow text, type text, memo blob, PRIMARY KEY ((domain, part), started, run))
				WITH CLUSTERING ORDER BY (started DESC, run ASC) AND gc_grace_seconds = 172800`,
			`CREATE INDEX open_by_workflow ON open (workflow)`, `CREATE INDEX open_by_type ON open (type)`,
			`CREATE TABLE closed (domain uuid, part int, closed timestamp, run uuid, workflow text, type text, status int, PRIMARY KEY ((domain, part), closed, run))
				WITH CLUSTERING ORDER BY (closed DESC, run ASC) AND default_time_to_live = 86400`,
			`CREATE INDEX closed_by_status ON closed (status)`)
	})
	const domain = "00000000-0000-4000-8000-00000000000a"
	p.check("writes", func() error {
		for i := range 60 {
			at, run := base.Add(time.Duration(i)*time.Minute), fmt.Sprintf("00000000-0000-4000-8000-%012d", i)
			if err := first(p.Query(`INSERT INTO open (domain, part, started, run, workflow, type) VALUES (?, ?, ?, ?, ?, ?)`, domain, i%2, at, run, fmt.Sprint("w", i%5), fmt.Sprint("t", i%3)).Exec(),
				p.Query(`INSERT INTO closed (domain, part, closed, run, workflow, status) VALUES (?, ?, ?, ?, ?, ?) USING TTL 1000`, domain, i%2, at, run, fmt.Sprint("w", i), i%4).Exec()); err != nil {
				return err
			}
		}
		return nil
	})
	p.check("ranges", func() error {
		from, to := base.Add(10*time.Minute), base.Add(40*time.Minute)
		return first(
			p.want([]string{"t1", "t0", "t2", "t1"}, `SELECT type FROM open WHERE domain = ? AND part = ? AND started >= ? AND started <= ? AND workflow = ?`, domain, 0, from, to, "w0"),
			p.want([]string{"w4", "w3", "w2", "w1", "w0"}, `SELECT workflow FROM open WHERE domain = ? AND part = 1 AND started > ? AND started < ? AND type = 't0'`, domain, from, to),
			p.want([]string{"w35", "w31", "w27", "w23", "w19", "w15", "w11"}, `SELECT workflow FROM closed WHERE domain = ? AND part = 1 AND closed >= ? AND closed < ? AND status = 3`,
				domain, from, base.Add(37*time.Minute)),
			p.want([]string{"w35", "w31"}, `SELECT workflow FROM closed WHERE domain = ? AND part = 1 AND closed >= ? AND closed < ? AND status = 3 LIMIT 2`, domain, from, base.Add(37*time.Minute)),
			p.want([]string{"15"}, `SELECT count(*) FROM closed WHERE domain = ? AND part = 0 AND status = 2 AND closed >= 0`, domain))
	})
	p.check("moves", func() error {
		return first(p.Query(`DELETE FROM open WHERE domain = ? AND part = 0 AND started = ? AND run = 00000000-0000-4000-8000-000000000020`, domain, base.Add(20*time.Minute)).Exec(),
			p.Query(`UPDATE open SET workflow = 'other' WHERE domain = ? AND part = 0 AND started = ? AND run = 00000000-0000-4000-8000-000000000030`, domain, base.Add(30*time.Minute)).Exec(),
			p.want([]string{"t2", "t1", "t1", "t0"}, `SELECT type FROM open WHERE domain = ? AND part = 0 AND started >= ? AND workflow = 'w0'`, domain, base),
			p.want([]string{"t0"}, `SELECT type FROM open WHERE domain = ? AND part = 0 AND started >= ? AND workflow = 'other'`, domain, base),
			p.want([]string{"t0"}, `SELECT type FROM open WHERE workflow = 'other'`))
	})
}
