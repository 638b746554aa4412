package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	_ "github.com/golang-migrate/migrate/v4/database/cassandra"
	_ "github.com/golang-migrate/migrate/v4/source/file"
)

// scripts are migrations with several statements each. The third one fails.
var scripts = map[string]string{
	"1_users.up.cql": "CREATE TABLE users (id int PRIMARY KEY, name text);\nCREATE INDEX users_name ON users " +
		"(name);\n",
	"1_users.down.cql": "DROP INDEX users_name;\nDROP TABLE users;\n",
	"2_cities.up.cql": "ALTER TABLE users ADD city text;\nCREATE MATERIALIZED VIEW by_city AS SELECT * FROM " +
		"users WHERE city IS NOT NULL AND id IS NOT NULL PRIMARY KEY (city, id);\nINSERT INTO users (id, name, " +
		"city) VALUES (1, 'a', 'b');\n",
	"2_cities.down.cql":  "DROP MATERIALIZED VIEW by_city;\nALTER TABLE users DROP city;\n",
	"3_mistake.up.cql":   "CREATE TABLE third (id int PRIMARY KEY);\nALTER TABLE nothing ADD x int;\n",
	"3_mistake.down.cql": "DROP TABLE third;\n",
}

// migrations changes a schema with golang-migrate.
func migrations(p *program) {
	dir, err := os.MkdirTemp("", "migrations")
	if err != nil {
		p.check("directory", func() error { return err })
		return
	}
	defer os.RemoveAll(dir)
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			p.check("directory", func() error { return err })
			return
		}
	}
	var m *migrate.Migrate
	p.check("open", func() (err error) {
		m, err = migrate.New("file://"+dir, "cassandra://"+p.points[0]+"/"+url.PathEscape(p.keyspace)+
			"?x-multi-statement=true&timeout=20s&consistency=QUORUM&connect-timeout=20s")
		return err
	})
	if m == nil {
		return
	}
	at := func(want uint, dirty bool) error {
		v, d, err := m.Version()
		if err != nil || v != want || d != dirty {
			return fmt.Errorf("version %d, dirty %v: %w; want %d, %v", v, d, err, want, dirty)
		}
		return nil
	}
	p.check("up", func() error {
		return first(m.Migrate(2), at(2, false), p.want([]string{"1"}, `SELECT id FROM by_city WHERE city = 'b'`),
			p.want([]string{"1"}, `SELECT id FROM users WHERE name = 'a'`))
	})
	p.check("down", func() error {
		return first(m.Steps(-1), at(1, false), p.refused("city", `SELECT city FROM users`),
			p.refused("by_city", `SELECT * FROM by_city`))
	})
	p.check("dirty", func() error {
		var failed database.Error
		if err := m.Up(); err == nil || !errors.As(err, &failed) {
			return fmt.Errorf("the mistake is answered with %w", err)
		}
		var dirty migrate.ErrDirty
		if err := m.Up(); !errors.As(err, &dirty) || dirty.Version != 3 {
			return fmt.Errorf("a dirty schema is answered with %w", err)
		}
		return at(3, true)
	})
	p.check("force", func() error {
		return first(m.Force(3), at(3, false), m.Down(), p.refused("users", `SELECT * FROM users`), func() error {
			if _, _, err := m.Version(); !errors.Is(err, migrate.ErrNilVersion) {
				return fmt.Errorf("the version is %w", err)
			}
			return nil
		}())
	})
	p.check("again", func() error {
		err := first(m.Steps(1), at(1, false))
		if same := m.Migrate(1); !errors.Is(same, migrate.ErrNoChange) {
			err = first(err, fmt.Errorf("no change is answered with %w", same))
		}
		return first(err, m.Drop(), p.want([]string{}, `SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?`, p.keyspace))
	})
	p.check("close", func() error { return first(m.Close()) })
}
