package gosuite

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

func report(kind string, err error) {
	fmt.Println(kind, time.Now().UnixMilli(), strings.Join(strings.Fields(err.Error()), " "))
}

// runFailover writes until the input ends, then reads the acknowledged rows.
func runFailover(d Driver, s Settings) int {
	db, err := d.Open(s, "")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer db.Close()
	table := s.Keyspace + ".acked"
	err = firstError(db.Exec("DROP KEYSPACE IF EXISTS "+s.Keyspace), db.Exec(s.createKeyspace()),
		db.Exec("CREATE TABLE "+table+" (id int PRIMARY KEY)"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ended := make(chan struct{})
	go func() {
		io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	present := func(id int) {
		row, err := db.Row("SELECT count(*) AS n FROM "+table+" WHERE id = ?", id)
		switch {
		case err != nil:
			report("error", err)
		case same(row["n"], 1, "") != nil:
			fmt.Println("missing", id)
		}
	}
	fmt.Println("ready")
	var acked []int
	for id := 0; ; id++ {
		select {
		case <-ended:
			for _, id := range acked {
				present(id)
			}
			fmt.Println("done")
			if err := db.Exec("DROP KEYSPACE " + s.Keyspace); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			return 0
		case <-time.After(2 * time.Millisecond):
		}
		if err := db.Exec("INSERT INTO "+table+" (id) VALUES (?)", id); err != nil {
			report("error", err)
			continue
		}
		acked = append(acked, id)
		fmt.Println("acked", time.Now().UnixMilli(), id)
		if id%10 == 0 {
			present(id)
		}
	}
}
