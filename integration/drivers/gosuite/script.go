package gosuite

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// rolePassword is the password of the roles that a script creates.
const rolePassword = "secret"

// script executes steps as several roles, each with a session of its own.
type script struct {
	driver   Driver
	settings Settings
	settle   time.Duration // time after a step of admin
	sessions map[string]Session
	prepared map[string]string // role and name → statement
}

// runScript executes the steps of the standard input, one on each line, and prints an answer for each.
func runScript(d Driver, s Settings) int {
	settle, err := strconv.Atoi(setting("CQLD_SETTLE", "0"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "CQLD_SETTLE:", err)
		return 2
	}
	p := &script{d, s, time.Duration(settle) * time.Millisecond, map[string]Session{}, map[string]string{}}
	defer func() {
		for _, db := range p.sessions {
			db.Close()
		}
	}()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		answer, err := p.step(strings.ReplaceAll(in.Text(), "$rf", strconv.Itoa(s.RF)))
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", in.Text(), err)
			return 1
		}
		fmt.Println(answer)
	}
	return 0
}

// step executes "ROLE: STATEMENT", "ROLE prepare NAME: STATEMENT" or "ROLE execute NAME". Drivers in Go prepare a
// statement when it is executed first.
func (p *script) step(line string) (string, error) {
	head, statement, _ := strings.Cut(line, ": ")
	words := strings.Fields(head)
	role := words[0]
	switch {
	case len(words) == 1:
	case len(words) == 3 && words[1] == "prepare":
		p.prepared[role+" "+words[2]] = statement
		return "OK", nil
	case len(words) == 3 && words[1] == "execute":
		statement = p.prepared[role+" "+words[2]]
	default:
		return "", fmt.Errorf("unknown step")
	}
	db, err := p.session(role)
	if err != nil {
		return "", err
	}
	rows, err := db.Rows(statement)
	if strings.HasPrefix(statement, "GRANT") || strings.HasPrefix(statement, "REVOKE") || role == "admin" {
		time.Sleep(p.settle)
	}
	if err != nil {
		return fmt.Sprintf("%04x %s", p.driver.Code(err), err), nil
	}
	answer := "OK"
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = text(v)
		}
		answer += " (" + strings.Join(cells, ", ") + ")"
	}
	return answer, nil
}

// session returns the session of a role; admin's session has the credentials of the settings.
func (p *script) session(role string) (Session, error) {
	if db := p.sessions[role]; db != nil {
		return db, nil
	}
	s := p.settings
	if role != "admin" {
		s.User, s.Password = role, rolePassword
	}
	db, err := p.driver.Open(s, "")
	if err == nil {
		p.sessions[role] = db
	}
	return db, err
}
