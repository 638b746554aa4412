package main

import (
	"fmt"
	"math"
	"sort"
)

// vectors is a store of embeddings with metadata: an index on the entries of a map, and one on the vectors, in one
// table.
func vectors(p *program) {
	for _, similarity := range []string{"cosine", "euclidean", "dot_product"} {
		p.check(similarity, func() error { return p.nearest(similarity) })
	}
}

// nearest stores vectors and searches the nearest ones with one similarity function.
func (p *program) nearest(similarity string) error {
	const sai = " USING 'org.apache.cassandra.index.sai.StorageAttachedIndex'"
	t := "store_" + similarity
	if err := p.all(`CREATE TABLE `+t+` (pk text, id int, body text, m map<text, text>, v vector<float, 4>, PRIMARY KEY (pk, id))`,
		`CREATE CUSTOM INDEX `+t+`_m ON `+t+` (ENTRIES(m))`+sai,
		`CREATE CUSTOM INDEX IF NOT EXISTS `+t+`_v ON `+t+` (v)`+sai+` WITH OPTIONS = {'similarity_function': '`+similarity+`'}`); err != nil {
		return err
	}
	stored := map[int][]float32{}
	for i := range 60 {
		a, b := float64(i)*0.37, float64(i)*0.53
		v := unit(math.Cos(a), math.Sin(a), math.Cos(b), math.Sin(b))
		stored[i] = v
		if err := p.Query(`INSERT INTO `+t+` (pk, id, body, m, v) VALUES (?, ?, ?, ?, ?)`, fmt.Sprint("p", i%2), i,
			fmt.Sprint("body ", i),
			map[string]string{"source": fmt.Sprint("s", i%3), "language": "en"}, v).Exec(); err != nil {
			return err
		}
	}
	asked := unit(1, 0.2, 0.3, 0.4)
	order := func(keep func(int) bool, limit int) (rows []string) {
		var ids []int
		for i := range stored {
			if keep(i) {
				ids = append(ids, i)
			}
		}
		sort.Slice(ids, func(a, b int) bool { return product(stored[ids[a]], asked) > product(stored[ids[b]], asked) })
		for _, id := range ids[:min(limit, len(ids))] {
			rows = append(rows, fmt.Sprint(id))
		}
		return rows
	}
	find := func(rows []string, where string, args ...any) error {
		return p.wantNearest(rows, `SELECT id FROM `+t+where+` ORDER BY v ANN OF ? LIMIT ?`, args...)
	}
	return first(
		find(order(func(i int) bool { return i%3 == 1 && i%2 == 0 }, 5), ` WHERE m[?] = ? AND pk = ?`, "source", "s1",
			"p0", asked, 5),
		find(order(func(i int) bool { return i%3 == 2 }, 7), ` WHERE m[?] = ?`, "source", "s2", asked, 7),
		find(order(func(i int) bool { return i%2 == 1 }, 4), ` WHERE pk = ?`, "p1", asked, 4),
		find(order(func(int) bool { return true }, 3), ``, asked, 3),
		find([]string{}, ` WHERE m['source'] = 's1' AND m['language'] = 'de' AND pk = 'p0'`, asked, 3),
		p.similar(t, similarity, asked),
		p.all(`DELETE FROM `+t+` WHERE pk = 'p0' AND id IN (4, 10, 16)`,
			`UPDATE `+t+` SET m['source'] = 'none' WHERE pk = 'p0' AND id = 22`),
		find(order(func(i int) bool { return i%3 == 1 && i%2 == 0 && i > 22 }, 9), ` WHERE m[?] = ? AND pk = ?`,
			"source", "s1", "p0", asked, 9))
}

// wantNearest executes a search at the only level that Cassandra accepts.
func (p *program) wantNearest(want []string, text string, args ...any) error {
	iter := p.Query(text, args...).Consistency(1).PageSize(0).Iter()
	got, id := []string{}, 0
	for iter.Scan(&id) {
		got = append(got, fmt.Sprint(id))
	}
	if err := iter.Close(); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		return fmt.Errorf("%s with %v returned %v, want %v", text, args, got, want)
	}
	return nil
}

// similar checks the score of a row.
func (p *program) similar(table, similarity string, asked []float32) error {
	var score float32
	var v []float32
	if err := p.Query(`SELECT v, similarity_`+similarity+`(v, ?) FROM `+table+` WHERE pk = 'p1' AND id = 7`,
		asked).Scan(&v, &score); err != nil {
		return err
	}
	want := (1 + product(v, asked)) / 2
	if similarity == "euclidean" {
		want = 1 / (1 + 2 - 2*product(v, asked))
	}
	if math.Abs(float64(score)-want) > 1e-4 {
		return fmt.Errorf("the similarity is %v, want %v", score, want)
	}
	return nil
}

// unit returns a vector of length one, so that all similarity functions order the vectors equally.
func unit(values ...float64) []float32 {
	n := 0.0
	for _, x := range values {
		n += x * x
	}
	v := make([]float32, len(values))
	for i, x := range values {
		v[i] = float32(x / math.Sqrt(n))
	}
	return v
}

func product(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}
