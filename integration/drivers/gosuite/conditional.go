package gosuite

import "fmt"

// conditional checks that the driver understands the answers of lightweight transactions.
func (t *suite) conditional() error {
	table := t.ks + ".conditional"
	if err := t.db.Exec("CREATE TABLE " + table + " (k int, c int, v text, s int STATIC, PRIMARY KEY (k, " +
		"c))"); err != nil {
		return err
	}
	insert := "INSERT INTO " + table + " (k, c, v) VALUES (?, ?, ?) IF NOT EXISTS"
	update := "UPDATE " + table + " SET v = ? WHERE k = ? AND c = ? IF v = ?"
	for _, step := range []struct {
		text    string
		args    []any
		applied bool
		found   any
	}{
		{insert, []any{1, 1, "a"}, true, nil},
		{insert, []any{1, 1, "b"}, false, "a"},
		{update, []any{"b", 1, 1, "a"}, true, nil},
		{update, []any{"c", 1, 1, "a"}, false, "b"},
		{update, []any{"c", 1, 9, "a"}, false, nil},
	} {
		applied, row, err := t.db.CAS(step.text, step.args...)
		if err != nil {
			return err
		}
		if err := firstError(same(applied, step.applied, step.text),
			same(row["v"], step.found, step.text)); err != nil {
			return err
		}
	}
	applied, err := t.db.BatchCAS([]Statement{
		{Text: insert, Args: []any{1, 2, "x"}},
		{Text: update, Args: []any{"c", 1, 1, "b"}},
	})
	if err != nil || !applied {
		return fmt.Errorf("a conditional batch: applied %t, %w", applied, err)
	}
	if applied, err = t.db.BatchCAS([]Statement{{Text: insert, Args: []any{1, 2, "y"}},
		{Text: insert, Args: []any{1, 3, "y"}}}); err != nil || applied {
		return fmt.Errorf("a conditional batch of which a row exists: applied %t, %w", applied, err)
	}
	row, err := t.db.Row("SELECT v FROM "+table+" WHERE k = ? AND c = ?", 1, 1)
	if err != nil {
		return err
	}
	return same(row["v"], "c", "after the batch")
}
