package main

import "fmt"

// orm maps objects with collections: it creates indexes on keys, values, entries and full collections, SASI indexes,
// views, functions and aggregates.
func orm(p *program) {
	p.check("schema", func() error {
		return p.all(`CREATE TABLE users (id int PRIMARY KEY, name text, city text, age int, emails set<text>, scores list<int>, settings map<text, int>, path frozen<list<text>>, bio text)`,
			`CREATE INDEX users_emails ON users (emails)`, `CREATE INDEX users_scores ON users (VALUES(scores))`,
			`CREATE INDEX users_setting_names ON users (KEYS(settings))`,
			`CREATE INDEX users_setting_entries ON users (ENTRIES(settings))`,
			`CREATE INDEX users_path ON users (FULL(path))`,
			`CREATE CUSTOM INDEX users_name ON users (name) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'mode': 'CONTAINS',
				'analyzer_class': 'org.apache.cassandra.index.sasi.analyzer.NonTokenizingAnalyzer', 'case_sensitive': 'false'}`,
			`CREATE CUSTOM INDEX users_bio ON users (bio) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'mode': 'PREFIX'}`,
			`CREATE CUSTOM INDEX users_age ON users (age) USING 'org.apache.cassandra.index.sasi.SASIIndex' WITH OPTIONS = {'mode': 'SPARSE'}`,
			`CREATE MATERIALIZED VIEW users_by_city AS SELECT id, city, name, age FROM users WHERE city IS NOT NULL AND id IS NOT NULL PRIMARY KEY (city, id) WITH CLUSTERING ORDER BY (id DESC)`,
			`CREATE MATERIALIZED VIEW users_by_age AS SELECT * FROM users WHERE age IS NOT NULL AND id IS NOT NULL PRIMARY KEY (age, id)`)
	})
	p.check("functions", func() error {
		return p.all(`CREATE OR REPLACE FUNCTION full_name(name text, city text) RETURNS NULL ON NULL INPUT RETURNS text LANGUAGE java AS 'return name + " of " + city;'`,
			`CREATE FUNCTION add_int(state bigint, value int) CALLED ON NULL INPUT RETURNS bigint LANGUAGE java AS 'if (value == null) return state; return state + value;'`,
			`CREATE FUNCTION twice(state bigint) RETURNS NULL ON NULL INPUT RETURNS bigint LANGUAGE java AS 'return state * 2;'`,
			`CREATE AGGREGATE twice_sum(int) SFUNC add_int STYPE bigint FINALFUNC twice INITCOND 0`)
	})
	p.check("writes", func() error {
		for i := range 20 {
			err := p.Query(`INSERT INTO users (id, name, city, age, emails, scores, settings, path, bio) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, i, fmt.Sprint("Name ", i), fmt.Sprint("city", i%3), 20+i,
				[]string{fmt.Sprintf("u%d@x", i), fmt.Sprintf("g%d@x", i%4)}, []int{i % 5, 100 + i},
				map[string]int{fmt.Sprint("k", i%6): i % 2, "all": i}, []string{"home", fmt.Sprint(i % 7)},
				fmt.Sprintf("writes %d", i)).Exec()
			if err != nil {
				return err
			}
		}
		return nil
	})
	p.check("collections", func() error {
		return first(
			p.sorted("[1 5 9 13 17]", `SELECT id FROM users WHERE emails CONTAINS 'g1@x'`),
			p.sorted("[3 8 13 18]", `SELECT id FROM users WHERE scores CONTAINS ?`, 3),
			p.sorted("[2 8 14]", `SELECT id FROM users WHERE settings CONTAINS KEY 'k2'`),
			p.sorted("[3 9 15]", `SELECT id FROM users WHERE settings[?] = ?`, "k3", 1),
			p.sorted("[4 11 18]", `SELECT id FROM users WHERE path = ['home', '4']`),
			p.sorted("[13]", `SELECT id FROM users WHERE emails CONTAINS 'g1@x' AND scores CONTAINS 3 ALLOW FILTERING`),
			p.all(`UPDATE users SET emails = emails - {'g1@x'}, settings['k3'] = 5, scores[0] = 77 WHERE id = 9`,
				`DELETE settings['k3'] FROM users WHERE id = 15`),
			p.sorted("[1 5 13 17]", `SELECT id FROM users WHERE emails CONTAINS 'g1@x'`),
			p.sorted("[3]", `SELECT id FROM users WHERE settings['k3'] = 1`),
			p.sorted("[9]", `SELECT id FROM users WHERE settings['k3'] = 5`),
			p.sorted("[9]", `SELECT id FROM users WHERE scores CONTAINS 77`))
	})
	p.check("sasi", func() error {
		return first(p.sorted("[1 10 11 12 13 14 15 16 17 18 19]", `SELECT id FROM users WHERE name LIKE 'name 1%'`),
			p.sorted("[7 17]", `SELECT id FROM users WHERE name LIKE '%7'`),
			p.sorted("[5]", `SELECT id FROM users WHERE name LIKE '%E 5'`),
			p.sorted("[1 10 11 12 13 14 15 16 17 18 19]", `SELECT id FROM users WHERE bio LIKE 'writes 1%'`),
			p.sorted("[17 18 19]", `SELECT id FROM users WHERE age > 36`),
			p.sorted("[3 4]", `SELECT id FROM users WHERE age >= 23 AND age < 25`))
	})
	p.check("views", func() error {
		return first(p.want([]string{"19 39", "16 36", "13 33", "10 30", "7 27", "4 24", "1 21"},
			`SELECT id, age FROM users_by_city WHERE city = 'city1'`),
			p.all(`UPDATE users SET city = 'moved' WHERE id = 7`, `UPDATE users SET city = null WHERE id = 4`,
				`DELETE FROM users WHERE id = 1`),
			p.want([]string{"19", "16", "13", "10"}, `SELECT id FROM users_by_city WHERE city = 'city1'`),
			p.want([]string{"7 Name 7"}, `SELECT id, name FROM users_by_city WHERE city = 'moved'`),
			p.want([]string{"7 moved"}, `SELECT id, city FROM users_by_age WHERE age = 27`),
			p.want([]string{}, `SELECT id FROM users_by_age WHERE age = 21`))
	})
	p.check("calls", func() error {
		return first(p.want([]string{"Name 7 of moved"}, `SELECT full_name(name, city) FROM users WHERE id = 7`),
			p.want([]string{"1138"}, `SELECT twice_sum(age) FROM users`),
			p.want([]string{"54"}, `SELECT twice_sum(age) FROM users WHERE id = 7`),
			p.want([]string{"39 30"}, `SELECT max(age), min(age) FROM users_by_city WHERE city = 'city1'`))
	})
	p.check("undo", func() error {
		return p.all(`DROP MATERIALIZED VIEW users_by_city`, `DROP MATERIALIZED VIEW users_by_age`,
			`DROP AGGREGATE twice_sum`, `DROP FUNCTION twice(bigint)`, `DROP FUNCTION add_int`,
			`DROP FUNCTION IF EXISTS full_name(text, text)`, `DROP INDEX users_emails`,
			`DROP INDEX IF EXISTS users_emails`)
	})
}
