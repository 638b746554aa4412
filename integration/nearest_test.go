//go:build integration

package integration

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
	"cqld/types/similarity"
)

// vectorModel has the rows of TestNearestVectorsSurviveFaults that were acknowledged.
type vectorModel struct {
	rng  *rand.Rand
	rows map[[2]int][]float32
}

const (
	vectorDimensions = 16
	vectorRows       = 240
	vectorPartitions = 12
)

func (m *vectorModel) draw() []float32 {
	v := make([]float32, vectorDimensions)
	for i := range v {
		v[i] = float32(m.rng.IntN(2000)-1000) / 100
	}
	return v
}

func literal(v []float32) string { return strings.ReplaceAll(fmt.Sprint(v), " ", ", ") }

// write changes n rows at QUORUM: two of three get a new vector, the others are deleted.
func (m *vectorModel) write(t *testing.T, s *process.Server, first, n int) {
	t.Helper()
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := first; i < first+n; i++ {
		at, v := [2]int{i % vectorPartitions, i % vectorRows}, m.draw()
		text := fmt.Sprintf("INSERT INTO nearest_ring.docs (pk, ck, lang, v) VALUES (%d, %d, '%s', %s)", at[0], at[1],
			[]string{"de", "en"}[i%2], literal(v))
		if m.rows[at] != nil && i%3 == 0 {
			text = fmt.Sprintf("DELETE FROM nearest_ring.docs WHERE pk = %d AND ck = %d", at[0], at[1])
			v = nil
		}
		if a, err := c.Query(text, cqlclient.Options{Consistency: quorum}); err != nil || a.Err != nil {
			t.Fatal(text, err, a)
		}
		if m.rows[at] = v; v == nil {
			delete(m.rows, at)
		}
	}
}

// nearest returns the ten nearest rows for which holds is true.
func (m *vectorModel) nearest(to []float32, holds func(at [2]int) bool) (out [][2]int) {
	scores := map[[2]int]float32{}
	for at, v := range m.rows {
		if holds(at) {
			scores[at], _ = similarity.Euclidean.Score(to, v)
			out = append(out, at)
		}
	}
	slices.SortFunc(out, func(a, b [2]int) int { return cmp.Compare(scores[b], scores[a]) })
	return out[:min(10, len(out))]
}

// check searches through every server at QUORUM, and compares the ten nearest rows with the exact ones.
func (m *vectorModel) check(t *testing.T, servers []*process.Server, when string) {
	t.Helper()
	found, wanted := 0, 0
	for _, s := range servers {
		for _, q := range []struct {
			where string
			holds func(at [2]int) bool
		}{
			{"", func([2]int) bool { return true }},
			{"WHERE pk = 5", func(at [2]int) bool { return at[0] == 5 }},
			{"WHERE lang = 'de'", func(at [2]int) bool { return at[1]%2 == 0 }},
		} {
			to := m.draw()
			a := askServer(t, s, quorum, fmt.Sprintf("SELECT pk, ck, similarity_euclidean(v, %s) FROM "+
				"nearest_ring.docs %s ORDER BY v ANN OF %s LIMIT 10",
				literal(to), q.where, literal(to)))
			var got [][2]int
			for _, r := range a.Rows {
				got = append(got, [2]int{int(binary.BigEndian.Uint32(r[0])), int(binary.BigEndian.Uint32(r[1]))})
			}
			want := m.nearest(to, q.holds)
			for _, at := range want {
				if wanted++; slices.Contains(got, at) {
					found++
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, %s finds %v, not %v, with %q", when, s.Address, got, want, q.where)
			}
		}
	}
	t.Logf("%s: recall@10 is %d of %d", when, found, wanted)
}

// TestNearestVectorsSurviveFaults searches for vectors while a node is killed and has missed changes, after it has
// started again, and after a node has joined, which streams entries to it.
func TestNearestVectorsSurviveFaults(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 4, Spare: 1})
	first := ring.Servers[0]
	for _, text := range []string{
		"CREATE KEYSPACE nearest_ring WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}",
		fmt.Sprintf("CREATE TABLE nearest_ring.docs (pk int, ck int, lang text, v vector<float, %d>, PRIMARY KEY "+
			"(pk, ck))", vectorDimensions),
		"CREATE CUSTOM INDEX ON nearest_ring.docs (v) USING 'StorageAttachedIndex' WITH OPTIONS = " +
			"{'similarity_function': 'euclidean'}",
		"CREATE INDEX ON nearest_ring.docs (lang) USING 'sai'",
	} {
		askServer(t, first, quorum, text)
	}
	m := &vectorModel{rng: rand.New(rand.NewPCG(1, 37)), rows: map[[2]int][]float32{}}
	m.write(t, first, 0, vectorRows)
	m.check(t, ring.Servers, "after inserts")
	killed := ring.Servers[3]
	killed.Kill()
	m.write(t, first, vectorRows/4, vectorRows/2)
	m.check(t, ring.Servers[:3], "without a node")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	if err := killed.WaitAnswer(ringStart); err != nil {
		t.Fatal(err)
	}
	m.check(t, ring.Servers, "after the restart")
	grow(t, first, ring.Spare, 4)
	m.check(t, append(slices.Clone(ring.Servers), ring.Spare...), "after a node joined")
	m.write(t, ring.Spare[0], 0, vectorRows/4)
	m.check(t, ring.Spare, "after changes through the new node")
}
