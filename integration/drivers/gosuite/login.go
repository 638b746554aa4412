package gosuite

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// runLogin connects with correct and with wrong credentials.
func runLogin(d Driver, s Settings) int {
	if s.User == "" {
		fmt.Fprintln(os.Stderr, "CQLD_USER and CQLD_PASSWORD are not set")
		return 2
	}
	failed := 0
	check := func(name string, err error) {
		if err == nil {
			fmt.Println("ok", name)
			return
		}
		failed = 1
		fmt.Println("fail", name, strings.Join(strings.Fields(err.Error()), " "))
	}
	check("correct", s.logIn(d))
	check("wrong", s.refused(d, s.User, "wrong"))
	check("unknown", s.refused(d, "no_such_role", "wrong"))
	return failed
}

// logIn connects with correct credentials, and writes and reads a row.
func (s Settings) logIn(d Driver) error {
	db, err := d.Open(s, "")
	if err != nil {
		return err
	}
	defer db.Close()
	row, err := db.Row("SELECT key FROM system.local")
	if err != nil {
		return err
	}
	if err := same(row["key"], "local", "key"); err != nil {
		return err
	}
	drop := "DROP KEYSPACE IF EXISTS " + s.Keyspace
	for _, text := range []string{drop,
		fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}",
			s.Keyspace, s.RF),
		"CREATE TABLE " + s.Keyspace + ".t (k int PRIMARY KEY, v text)", "INSERT INTO " + s.Keyspace +
			".t (k, v) VALUES (1, 'written')"} {
		if err := db.Exec(text); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
	}
	if row, err = db.Row("SELECT v FROM " + s.Keyspace + ".t WHERE k = 1"); err != nil {
		return err
	}
	return errors.Join(same(row["v"], "written", "value"), db.Exec(drop))
}

// refused returns nil if the credentials are refused with the text for wrong ones.
func (s Settings) refused(d Driver, user, password string) error {
	s.User, s.Password = user, password
	db, err := d.Open(s, "")
	if err == nil {
		db.Close()
		return fmt.Errorf("%s is logged in", user)
	}
	if want := "Provided username " + user + " and/or password are incorrect"; !strings.Contains(err.Error(), want) {
		return fmt.Errorf("the error is %q, want %q", err, want)
	}
	return nil
}
