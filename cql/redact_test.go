package cql

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// TestRedact checks texts and messages that Cassandra 5.0 wrote to its audit log, except for those marked with "ours":
// Cassandra redacts no values of OPTIONS, and no text that misspells PASSWORD.
func TestRedact(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"CREATE ROLE aud_u WITH PASSWORD = 'secret1' AND LOGIN = true",
			"CREATE ROLE aud_u WITH PASSWORD = '*******' AND LOGIN = true"},
		{"CREATE ROLE aud_h WITH HASHED PASSWORD = '$2a$10$JSJEMFm6GeaW9XxT'",
			"CREATE ROLE aud_h WITH HASHED PASSWORD = '*******'"},
		{"CREATE USER aud_us WITH PASSWORD 'secret2' NOSUPERUSER",
			"CREATE USER aud_us WITH PASSWORD '*******' NOSUPERUSER"},
		{"CREATE USER aud_uh WITH HASHED PASSWORD '$2a$10$JSJEMFm6G'",
			"CREATE USER aud_uh WITH HASHED PASSWORD '*******'"},
		{"ALTER ROLE aud_u WITH LOGIN = true AND PASSWORD='secret9'",
			"ALTER ROLE aud_u WITH LOGIN = true AND PASSWORD='*******'"},
		{"ALTER USER aud_us WITH PASSWORD 'secret4'", "ALTER USER aud_us WITH PASSWORD '*******'"},
		{"CREATE ROLE IF NOT EXISTS aud_u WITH PASSWORD = $$secret5$$",
			"CREATE ROLE IF NOT EXISTS aud_u WITH PASSWORD = $$*******$$"},
		{`CREATE ROLE "aud_Q" WITH PASSWORD = 'it''s secret'`, `CREATE ROLE "aud_Q" WITH PASSWORD = '*******'`},
		{"CREATE ROLE aud_x WITH PASSWORD = 'secret6' AND NONSENSE = 1", "CREATE ROLE aud_x WITH PASSWORD *******"},
		{"CREATE ROLE aud_x WITH PASSWORD = 'secret7' foo", "CREATE ROLE aud_x WITH PASSWORD *******"},
		{"ALTER ROLE aud_v WITH PASSWORD = 5", "ALTER ROLE aud_v WITH PASSWORD *******"},
		{"CREATE TABLE aud.pw (password text primary key)", "CREATE TABLE aud.pw (password text primary key)"},
		{"SELECT * FROM t WHERE name = 'it''s'", "SELECT * FROM t WHERE name = 'it''s'"},
		// ours
		{"INSERT INTO aud.pw (id, password, n) VALUES ('abc', 'def', 1)",
			"INSERT INTO aud.pw (id, password, n) VALUES ('abc', '*******', 1)"},
		{"UPDATE pw SET n = 'a', password = 'b' WHERE id = 'c'",
			"UPDATE pw SET n = 'a', password = '*******' WHERE id = 'c'"},
		{"SELECT * FROM users /* of bob */ WHERE id = 'c'", "SELECT * FROM users /* of bob */ WHERE id = 'c'"},
		{"SELECT * FROM users WHERE id = 'c", "SELECT * FROM users WHERE id = '*******"},
		{"SELECT * FRM orders WHERE id = 'c'", "SELECT * FRM orders WHERE id = 'c'"},
		{"CREATE ROLE a WITH OPTIONS = {'n': 5, 'key': 'x'} AND LOGIN = true",
			"CREATE ROLE a WITH OPTIONS = {'n': *******, 'key': '*******'} AND LOGIN = true"},
		{"CREATE USER bob PASSWORT geheim", "CREATE USER bob ******* *******"},
		{"BATCH of 3 statements at consistency ONE", "BATCH of 3 statements at consistency ONE"},
		{"SELECT password FROM aud.pw WHERE password = 'abc'",
			"SELECT password FROM aud.pw WHERE password = '*******'"},
		{"CREATE ROLE ü WITH PASSWORD = 'secrét'", "CREATE ROLE ü WITH PASSWORD *******"},
		{`CREATE ROLE "ü" WITH PASSWORD = 'secrét' AND LOGIN = true`,
			`CREATE ROLE "ü" WITH PASSWORD = '*******' AND LOGIN = true`},
		{"CREATE ROLE a WITH OPTIONS = {'key1': 'c2VjcmV0', 'key2': 'x'} AND PASSWORD = 'y'",
			"CREATE ROLE a WITH OPTIONS = {'key1': '*******', 'key2': '*******'} AND PASSWORD = '*******'"},
		{"CREATE ROLE aud_x WITH PASSWRD = 'secret6'", "CREATE ROLE aud_x WITH PASSWRD = '*******'"},
		{"CREAT ROLE aud_x WITH PASSWORD = 'secret6'", "CREAT ROLE aud_x WITH PASSWORD *******"},
		{"CREATE ROLE a WITH PASWORD = 'secret6", "CREATE ROLE a WITH PASWORD = '*******"},
		{"CREATE ROLE a WITH PASWORD = $$secret6", "CREATE ROLE a WITH PASWORD = $$*******"},
		{`CREATE ROLE a WITH PASWORD = "secret6`, `CREATE ROLE a WITH PASWORD = *******`},
		{"create role a with password /* hidden */ = 'secret'", "create role a with password /*********/ = '*******'"},
	} {
		if got := Redact(c.text); got != c.want {
			t.Errorf("%s\ngot  %s\nwant %s", c.text, got, c.want)
		}
	}
}

func TestRedactOfOrdinaryTextsDoesNotAllocate(t *testing.T) {
	text := "SELECT a, b FROM ks.orders WHERE k = ? AND c > ? LIMIT 10 -- " + strings.Repeat("x", 100)
	if n := testing.AllocsPerRun(100, func() { Redact(text); RedactStatement(text) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRedactError(t *testing.T) {
	text := "CREATE ROLE a WITH PASSWORD = 'secret7' foo"
	_, err := Parse(text)
	if err == nil || strings.Contains(err.Error(), "secret7") {
		t.Errorf("Parse returns %v", err)
	}
	if got := RedactError(text, err); got != "Syntax Exception. Obscured for security reasons." {
		t.Error(got)
	}
	invalid := errors.New(`Invalid STRING constant (secret9) for "password" of type int`)
	if got := RedactError("SELECT * FROM t WHERE password = 'secret9'", invalid); strings.Contains(got, "secret9") {
		t.Error(got)
	}
	if got := RedactError("SELECT nix FROM t", errors.New("Undefined column name nix in table "+
		"aud.t")); got != "Undefined column name nix in table aud.t" {
		t.Error(got)
	}
}

// TestObscuredErrorsKeepTheirClass checks errors about a text with so many secrets that the message is not searched for
// them: only a syntax error is shown as one.
func TestObscuredErrorsKeepTheirClass(t *testing.T) {
	text := "SELECT * FROM t WHERE password IN (" + strings.Repeat("'Zq9vSecret',", 100) + "'')"
	message := strings.Repeat("Invalid value Zq9vSecret ", 1<<16)
	if got := RedactError(text, errors.New(message)); got != "Obscured for security reasons." {
		t.Errorf("%.100s", got)
	}
	if got := RedactError(text, &SyntaxError{Msg: message}); got !=
		"Syntax Exception. Obscured for security reasons." {
		t.Errorf("%.100s", got)
	}
}

// TestConstantsOfManySensitiveNamesAreSecrets checks a list of names without an operator after it, which is searched
// for each name: beyond the bound of steps every constant is a secret.
func TestConstantsOfManySensitiveNamesAreSecrets(t *testing.T) {
	for names, shown := range map[int]bool{1: true, 100: true, 2000: false} {
		text := "SELECT " + strings.Repeat("password,", names) + "a FROM t WHERE id = 'Zq9vValue' AND n = 5"
		if got := Redact(text); strings.Contains(got, "Zq9v") != shown || strings.Contains(got, "5") != shown {
			t.Errorf("%d names: %s", names, got[len(got)-50:])
		}
	}
}

// TestErrorsAfterTheGrammarAreRedacted checks texts that the grammar accepts and the builder refuses with a message
// that quotes them.
func TestErrorsAfterTheGrammarAreRedacted(t *testing.T) {
	for text, want := range map[string]string{
		"UPDATE t SET password = 'Zq9vSecret', v = (vector<float, 99999999999>)[1] WHERE k = 1": "[UPDATE t SET " +
			"password = '*******', v",
		"DELETE FROM t USING TIMESTAMP 1 AND TIMESTAMP 2 WHERE password = 'Zq9vSecret'": "line 1:",
		"SELECT * FROM t WHERE (a, password) IN (?, (1, 'Zq9vSecret'))":                 "line 1:",
	} {
		_, err := Parse(text)
		switch {
		case err == nil:
			t.Errorf("%s: no error", text)
		case strings.Contains(err.Error(), "Zq9v") || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v", text, err)
		}
	}
}

// FuzzRedact checks that a password does not remain in the redacted text of a role statement, whatever surrounds it,
// and that messages of syntax errors don't contain it.
func FuzzRedact(f *testing.F) {
	const secret = "Zq9vSecretZq9v"
	for _, s := range []string{"", "foo", "' x", "/*", `"`, "$$", ";", "ü", "AND LOGIN = true", "--",
		"AND PASSWORD = 'y'", "\x00", "''"} {
		f.Add("CREATE ROLE a ", s)
		f.Add("ALTER USER a "+s+" ", "")
	}
	f.Fuzz(func(t *testing.T, before, after string) {
		text := before + " WITH PASSWORD = '" + secret + "' " + after
		got := Redact(text)
		_, err := Parse(text)
		if err == nil {
			if literalHolds(before, secret) {
				return
			}
			if strings.Contains(got, secret) {
				t.Errorf("%q remains in %q", secret, got)
			}
			return
		}
		if strings.Contains(RedactError(text, err), secret) {
			t.Errorf("%v contains the password of %q", err, text)
		}
		if strings.Contains(got, secret) && !literalHolds(before, secret) {
			t.Errorf("%q remains in %q", secret, got)
		}
	})
}

// literalHolds reports whether a text may end inside a literal or comment, so that the following text is not a
// password.
func literalHolds(before, _ string) bool {
	return strings.ContainsAny(before, "'\"$/-")
}

// TestRedactionOfLongTextsIsBounded parses texts with an error that have long secrets, or many: the memory of the
// message is in proportion to the text. The time is not measured, but a quadratic search would take longer than the
// limit of the tests.
func TestRedactionOfLongTextsIsBounded(t *testing.T) {
	long := strings.Repeat("x", 1<<18)
	for name, text := range map[string]string{
		"comment":         "user -- " + long,
		"literal":         "CREATE ROLE a WITH PASSWORT = '" + long + "'",
		"dollars":         "CREATE ROLE a WITH PASSWORT = $$" + long + "$$",
		"two literals":    "CREATE ROLE a '" + long + "' '" + long + "'",
		"name":            "user " + long,
		"first name":      long,
		"many":            "CREATE ROLE a WITH OPTIONS = {" + strings.Repeat("'aaaaaaaa':'bbbbbbbb',", 20_000) + " !",
		"lookahead":       "SELECT a FROM users WHERE (" + strings.Repeat("a,", 30_000) + "a) !",
		"columns":         "SELECT user " + strings.Repeat(",0,Px,1", 10_000),
		"assignments":     "SELECT " + strings.Repeat("password=", 6000) + strings.Repeat("1 ", 14_000),
		"comments":        "SELECT user " + strings.Repeat("/**/", 1<<18) + strings.Repeat(" ", 1<<21) + "!",
		"leading comment": "/* " + long + " */ SELECT * FRM t",
		"misspelled":      "/* " + long + " */ SELEC * FROM t",
		"statement":       "UPDATE t SET v = (vector<float, 99999999999>)[1], s = '" + long + "' WHERE k = 1",
		"dimensions":      "UPDATE t SET v = (vector<float, 1" + strings.Repeat("0", 1<<16) + ">)[1] WHERE k = 1",
	} {
		_, _ = Parse(text) // warms up the parser's caches
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(text)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		parsed, _ := ParseBytes(text)
		if used := int(after.TotalAlloc - before.TotalAlloc); used > 2*parsed+8*len(text) {
			t.Errorf("%s: %d bytes for a text of %d, with %d reserved", name, used, len(text), parsed)
		}
		if n := len(err.Error()); n > 5*snippetCharsMax {
			t.Errorf("%s: the message has %d bytes", name, n)
		}
		if strings.Contains(err.Error(), "xxxxx") || strings.Contains(err.Error(), "bbbbb") {
			t.Errorf("%s: %.200s", name, err.Error())
		}
	}
}
