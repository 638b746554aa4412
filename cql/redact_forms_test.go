package cql

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// secretWords are secrets that a lexer reads in different ways. Their first bytes, which a truncated text may show,
// occur nowhere else.
func secretWords() []string {
	return []string{"Zq9vSecret", "Zq9v it''s secret", "Zq9v-select-and-more", "Zq9vä€ü", "Zq9v WITH x = y",
		"Zq9vPassword1", "Zq9v/*x*/--y", `Zq9v"q"`}
}

const secretStart = "Zq9v"

// quotings returns the literals with a secret. A secret with a quote has no other form than that of a string.
func quotings(secret string) []string {
	return []string{"'" + secret + "'", "$$" + strings.ReplaceAll(secret, "''", "'") + "$$"}
}

// roleForms are statements that set a password, a hash or a key; %s is the literal.
func roleForms() []string {
	return []string{
		"CREATE ROLE r WITH PASSWORD = %s", "create role if not exists r with password=%s and login=true",
		`CREATE ROLE "R" WITH LOGIN = true AND PASSWORD = %s AND ACCESS TO DATACENTERS {'dc1'}`,
		"ALTER ROLE r WITH PASSWORD = %s;",
		"ALTER ROLE IF EXISTS r WITH HASHED PASSWORD = %s AND SUPERUSER = false",
		"CREATE ROLE r WITH ACCESS FROM ALL CIDRS AND HASHED PASSWORD = %s",
		"CREATE USER u WITH PASSWORD %s NOSUPERUSER", "ALTER USER u WITH HASHED PASSWORD %s",
		"CREATE USER IF NOT EXISTS u WITH PASSWORD %s",
		"CREATE ROLE r WITH OPTIONS = {'key1': %s, 'other': 'x'}",
		"ALTER ROLE r WITH OPTIONS = {'a': 'b', 'key2': %s} AND LOGIN = true",
		"CREATE ROLE r WITH PASSWORD\n=\t%s -- ends", "/* PASSWORD %s */ CREATE ROLE r",
		"CREATE ROLE r // WITH PASSWORD = %s\n WITH LOGIN = true",
		"-- ALTER USER x WITH PASSWORD %s\nSELECT a FROM t", "SELECT a /* ALTER ROLE x WITH PASWORD = %s */ FROM t",
	}
}

// columnForms are statements about columns with secrets.
func columnForms() []string {
	return []string{
		"INSERT INTO t (id, password) VALUES (1, %s)", "INSERT INTO t (password, id) VALUES (%s, f(1, [2, (3, 4)])) " +
			"IF NOT EXISTS",
		`INSERT INTO t (id, "userPassword") VALUES ((1, 2), %s) USING TTL 5`,
		"INSERT INTO t (id, m) VALUES (1, {'password': %s, 'x': 'y'})",
		"INSERT INTO t (id, u) VALUES (1, {name: 'a', password: %s})", "INSERT INTO t JSON %s -- password",
		"INSERT INTO t (id, password_history) VALUES (1, ['old', %s])", "UPDATE t SET password = %s WHERE id = 1",
		"UPDATE t SET n = 1, password = %s, o = 2 WHERE id = 1", "UPDATE t SET m['password'] = %s WHERE id = 1",
		"UPDATE t SET u.password = %s WHERE id = 1", "UPDATE t SET passwords[3] = %s WHERE id = 1",
		"UPDATE t SET passwords = passwords + {%s} WHERE id = 1", "UPDATE t SET passwords += [%s] WHERE id = 1",
		"UPDATE t SET n = 1 WHERE id = 1 IF password = %s AND n = 2", "DELETE FROM t WHERE password = %s",
		"DELETE passwords[%s] FROM t WHERE id = 1",
		"SELECT * FROM t WHERE password = %s", "SELECT * FROM t WHERE password IN ('a', %s) ALLOW FILTERING",
		"SELECT * FROM t WHERE passwords CONTAINS KEY %s", "SELECT * FROM t WHERE password LIKE %s",
		"SELECT * FROM t WHERE (a, password) = (1, %s)",
		"SELECT * FROM t WHERE (password, a) IN ((%s, 1), ('x', 2))",
		"SELECT * FROM t WHERE token(password) > token(%s)",
		"SELECT * FROM t WHERE id = 1 AND password BETWEEN 'a' AND %s",
		"SELECT * FROM t WHERE password != %s OR id = 3",
		"SELECT * FROM t WHERE m['password'] = %s", "SELECT * FROM t WHERE password NOT IN (%s)",
		"EXPLAIN SELECT * FROM t WHERE password = %s",
		"BEGIN BATCH INSERT INTO t (id, password) VALUES (1, %s); UPDATE t SET a = 1 WHERE id = 2; APPLY BATCH",
		"BEGIN BATCH UPDATE t SET password = 'x' WHERE id = 2 INSERT INTO t (password) VALUES (%s) APPLY BATCH",
		"CREATE TABLE t (id int PRIMARY KEY, password text DEFAULT %s)",
		"CREATE TABLE t (id int PRIMARY KEY, password text CHECK password != %s)",
		"SELECT * FROM t WHERE id = 1 ORDER BY password ANN OF [1, 2] /* password %s */",
	}
}

// showsSecret reports whether a text contains the beginning of a secret.
func showsSecret(text string) bool { return strings.Contains(text, secretStart) }

// checkForm checks everything that logs and tables show of a text, and the message that the client receives.
func checkForm(t *testing.T, text string) {
	t.Helper()
	if got := Redact(text); showsSecret(got) {
		t.Errorf("Redact of %q shows %q", text, got)
	}
	_, err := Parse(text)
	if err == nil {
		if got := RedactStatement(text); showsSecret(got) {
			t.Errorf("RedactStatement of %q shows %q", text, got)
		}
		err = errors.New("Invalid value " + text)
	} else if showsSecret(err.Error()) {
		t.Errorf("Parse of %q returns %q", text, err)
	}
	if got := RedactError(text, err); showsSecret(got) {
		t.Errorf("RedactError of %q shows %q", text, got)
	}
}

// TestNoFormOfAStatementShowsASecret generates statements with secrets: all forms with all literals, then truncated at
// each byte, with a word missing, doubled or misspelled, or with something between the words.
func TestNoFormOfAStatementShowsASecret(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	forms := 0
	defer func() {
		t.Logf("%d texts", forms)
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	}()
	check := func(text string) {
		forms++
		checkForm(t, text)
	}
	for i, form := range append(roleForms(), columnForms()...) {
		for _, secret := range secretWords() {
			for _, literal := range quotings(secret) {
				if strings.Contains(form, "JSON") {
					literal = strings.Replace(literal, secretStart, `{"password": "`+secretStart, 1)
				}
				if strings.Contains(form, "//") && strings.Contains(literal, "\n") || strings.Contains(form, "/*") &&
					strings.Contains(literal, "*/") {
					continue // the comment ends before the secret does
				}
				text := fmt.Sprintf(form, literal)
				check(text)
				for range 20 {
					check(mutated(random, text, i < len(roleForms()) && !strings.HasPrefix(form, "SELECT")))
				}
			}
		}
		text := fmt.Sprintf(form, "'Zq9vSecret'")
		if strings.Contains(form, "JSON") {
			text = fmt.Sprintf(form, `'{"password": "Zq9vSecret"}'`)
		}
		for n := range text {
			if utf8.ValidString(text[:n]) {
				check(text[:n])
			}
		}
	}
}

// mutated returns a broken text. Only texts about roles have their keywords misspelled, because a text without the word
// PASSWORD has no secret.
func mutated(random *rand.Rand, text string, role bool) string {
	at := strings.Index(text, secretStart)
	words := strings.Fields(text[:at])
	quote := words[len(words)-1] // the last word is the quote before the secret
	words, rest := words[:len(words)-1], quote+text[at:]
	i := random.IntN(len(words))
	switch random.IntN(6) {
	case 0:
		if !role && (Sensitive(words[i]) || words[i] == "ROLE") {
			return text
		}
		words = append(words[:i:i], words[i+1:]...)
	case 1:
		words = append(words[:i+1:i+1], words[i:]...)
	case 2:
		if w := words[i]; role && len(w) > 3 && !strings.ContainsAny(w, "'/-*") {
			n := 1 + random.IntN(len(w)-2)
			words[i] = w[:n] + w[n+1:]
		}
	case 3:
		words[i] += []string{" /* x */", " ä", " §", " 5", " foo", ";"}[random.IntN(6)]
	case 4:
		rest += []string{" foo", " 'x", " $$", ` "`, " /*", " AND", ")", "\x00"}[random.IntN(8)]
	case 5:
		rest = strings.TrimRight(rest, ";'$")
	}
	return strings.Join(words, " ") + " " + rest
}

// TestUnquotedSecretsAreNotShown checks texts whose password has no quotes, or another kind.
func TestUnquotedSecretsAreNotShown(t *testing.T) {
	for _, word := range []string{"Zq9vSecret", `"Zq9vSecret"`, "Zq9vPassword1", `"Zq9vPassword1"`, "Zq9v@secret!",
		"«Zq9vSecret»", "`Zq9vSecret`", `"Zq9vSecret`, "Zq9v-secret.x"} {
		for _, form := range []string{"ALTER ROLE r WITH PASSWORD = %s",
			"ALTER ROLE r WITH PASSWORD %s AND LOGIN = true", "CREATE USER u WITH PASSWORD %s",
			"CREATE USER u PASSWORD %s", "CREATE USER u %s", "ALTER ROLE r WITH PASWORD = %s",
			"ALTER ROLE r WITH PASSWORT %s", "ALTR ROLE r WITH PASWORD = %s",
			"ALTER ROEL r WITH HASH = %s", "CREATE ROLE r WITH HASHED = %s AND LOGIN = true",
			"CREATE ROLE r WITH OPTIONS = {'key': %s}",
			"CREATE ROLE r WITH LOGIN %s", "CREATE ROLE r WITH %s", "SET PASSWORD FOR r = %s",
			"CREATE ROLE r IDENTIFIED BY %s"} {
			checkForm(t, fmt.Sprintf(form, word))
		}
	}
}
