package main

import (
	"fmt"
	"strings"
)

// mapper is an object mapper: it creates a table for each type of object, and an index for each marked column.
func mapper(p *program) {
	marked := []struct{ column, kind, some, other string }{
		{"a_text", "text", "'x'", "'y'"}, {"a_int", "int", "1", "2"}, {"a_bigint", "bigint", "10000000000", "2"},
		{"a_smallint", "smallint", "-1", "2"}, {"a_tinyint", "tinyint", "7", "2"},
		{"a_varint", "varint", "-123456789012345678901234567890", "0"}, {"a_decimal", "decimal", "1.50", "2"},
		{"a_float", "float", "0.5", "2"}, {"a_double", "double", "-0.25", "2"},
		{"a_boolean", "boolean", "true", "false"}, {"a_uuid", "uuid", "5f3e5bb0-0000-4000-8000-000000000001",
			"5f3e5bb0-0000-4000-8000-000000000002"},
		{"a_timeuuid", "timeuuid", "d2177dd0-eaa2-11de-a572-001b779c76e3", "d2177dd0-eaa2-11de-a572-001b779c76e4"},
		{"a_timestamp", "timestamp", "'2024-01-02 03:04:05.678+0000'", "0"},
		{"a_date", "date", "'2024-01-02'", "'2024-01-03'"}, {"a_time", "time", "'01:02:03.000000004'", "'01:02:03'"},
		{"a_inet", "inet", "'10.0.0.1'", "'::1'"}, {"a_ascii", "ascii", "'x'", "'y'"},
		{"a_blob", "blob", "0x00ff", "0x00"}, {"a_tuple", "frozen<tuple<int, text>>", "(1, 'x')", "(1, 'y')"},
		{"a_type", "frozen<point>", "{x: 1, y: 2}", "{x: 2, y: 1}"},
	}
	p.check("schema", func() error {
		columns, names := "", []string{}
		for _, m := range marked {
			columns += m.column + " " + m.kind + ", "
			names = append(names, fmt.Sprintf(`CREATE INDEX IF NOT EXISTS object_%s_idx ON "Object" (%s)`, m.column,
				m.column))
		}
		return first(p.all(`CREATE TYPE point (x int, y int)`,
			`CREATE TABLE "Object" (id int, part text, "Mixed" text, `+columns+`PRIMARY KEY (id, part))`),
			p.all(names...), p.all(names...),
			p.all(`CREATE INDEX ON "Object" ("Mixed")`, `CREATE INDEX ON "Object" (part)`))
	})
	p.check("indexes", func() error {
		rows, err := p.rows(`SELECT index_name FROM system_schema.indexes WHERE keyspace_name = ? AND table_name = 'Object'`, p.keyspace)
		if err != nil || len(rows) != len(marked)+2 {
			return fmt.Errorf("%d indexes: %v %w", len(rows), rows, err)
		}
		return nil
	})
	for _, m := range marked {
		p.check(strings.TrimPrefix(m.column, "a_"), func() error {
			insert := `INSERT INTO "Object" (id, part, "Mixed", ` + m.column + `) VALUES `
			query := `SELECT id, part FROM "Object" WHERE ` + m.column + ` = `
			return first(p.all(insert+`(1, 'p', 'M', `+m.some+`)`, insert+`(2, 'p', 'M', `+m.other+`)`,
				insert+`(3, 'q', 'N', `+m.some+`)`),
				p.want([]string{"1 p", "3 q"}, query+m.some), p.want([]string{"2 p"}, query+m.other),
				p.want([]string{"3 q"}, query+m.some+` AND id = 3`),
				p.all(`UPDATE "Object" SET `+m.column+` = `+m.other+` WHERE id = 1 AND part = 'p'`,
					`DELETE `+m.column+` FROM "Object" WHERE id = 3 AND part = 'q'`),
				p.want([]string{}, query+m.some), p.want([]string{"1 p", "2 p"}, query+m.other),
				p.want([]string{"1 p", "2 p"}, query+m.other+` AND part = 'p' ALLOW FILTERING`))
		})
	}
	p.check("names", func() error {
		return first(p.want([]string{"3"}, `SELECT id FROM "Object" WHERE "Mixed" = 'N'`),
			p.want([]string{"1", "2"}, `SELECT id FROM "Object" WHERE part = 'p'`),
			p.all(`DROP INDEX object_a_text_idx`, `ALTER TABLE "Object" ADD later text`,
				`CREATE INDEX ON "Object" (later)`, `INSERT INTO "Object" (id, part, later) VALUES (9, 'z', 'l')`),
			p.refused("ALLOW FILTERING", `SELECT id FROM "Object" WHERE a_text = 'y'`),
			p.soon(`SELECT id FROM "Object" WHERE later = 'l'`),
			p.want([]string{"9"}, `SELECT id FROM "Object" WHERE later = 'l'`))
	})
}
