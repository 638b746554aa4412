package voters

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// draft returns candidates from a list of "datacenter/rack" names; those in voting vote.
func draft(places []string, voting ...uint64) (out []Candidate) {
	for i, p := range places {
		dc, rack, _ := strings.Cut(p, "/")
		id := uint64(i + 1)
		out = append(out, Candidate{ID: id, Datacenter: dc, Rack: rack, Alive: true,
			Votes: slices.Contains(voting, id)})
	}
	return out
}

// TestChooseVoters checks choices for given rings.
func TestChooseVoters(t *testing.T) {
	one := func(racks ...string) (out []string) {
		for _, r := range racks {
			out = append(out, "a/"+r)
		}
		return out
	}
	for name, c := range map[string]struct {
		places       []string
		voting, want []uint64
	}{
		"one":                     {one("r"), []uint64{1}, []uint64{1}},
		"two":                     {one("r", "r"), []uint64{1}, []uint64{1}},
		"three":                   {one("r", "r", "r"), []uint64{1}, []uint64{1, 2, 3}},
		"four keep three":         {one("r", "r", "r", "r"), []uint64{2, 3, 4}, []uint64{2, 3, 4}},
		"seven in one rack":       {one("r", "r", "r", "r", "r", "r", "r"), []uint64{1}, []uint64{1, 2, 3, 4, 5}},
		"racks":                   {one("r", "r", "r", "s", "s", "t"), []uint64{1, 2, 3}, []uint64{1, 2, 4, 5, 6}},
		"a rack without majority": {one("r", "r", "r", "r", "r", "s", "t"), []uint64{1, 2, 3}, []uint64{1, 6, 7}},
		"two data centers": {[]string{"a/r", "a/r", "a/r", "b/r", "b/r", "b/r"}, []uint64{1, 2, 3},
			[]uint64{1, 2, 3, 4, 5}},
		"three of two": {[]string{"a/r", "a/r", "b/r", "b/r", "c/r", "c/r"}, []uint64{1, 2, 3},
			[]uint64{1, 2, 3, 4, 5}},
		"three of three": {[]string{"a/r", "a/r", "a/r", "b/r", "b/r", "b/r", "c/r", "c/r", "c/r"},
			[]uint64{1, 2, 3, 4, 5}, []uint64{1, 2, 3, 4, 5, 7, 8}},
		"a small third": {[]string{"a/r", "a/r", "a/r", "b/r", "b/r", "b/r", "c/r"},
			[]uint64{1, 2, 3, 4, 5}, []uint64{1, 2, 3, 4, 5, 6, 7}},
		"one large of three": {[]string{"a/r", "a/r", "a/r", "a/r", "a/r", "b/r", "c/r"},
			[]uint64{1, 2, 3, 4, 5}, []uint64{1, 6, 7}},
		"racks of data centers": {[]string{"a/r", "a/r", "a/s", "b/r", "b/r", "b/s", "c/r", "c/r", "c/s"}, nil,
			[]uint64{1, 2, 3, 4, 6, 7, 9}},
		"nine of one each, leader": {[]string{"a/r", "b/r", "c/r", "d/r", "e/r", "f/r", "g/r", "h/r", "i/r"},
			[]uint64{9}, []uint64{1, 2, 3, 4, 5, 6, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Choose(draft(c.places, c.voting...)); !slices.Equal(got, c.want) {
				t.Errorf("%v, %v vote: %v, want %v", c.places, c.voting, got, c.want)
			}
		})
	}
}

// TestChooseVotersProperties draws rings and checks the numbered statements of Choose.
func TestChooseVotersProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 1))
	for range 20_000 {
		var all []Candidate
		dcs, racks := 1+rng.IntN(5), 1+rng.IntN(4)
		for id := range 1 + rng.IntN(14) {
			all = append(all, Candidate{ID: uint64(id + 1), Datacenter: string(rune('a' + rng.IntN(dcs))),
				Rack:  string(rune('r' + rng.IntN(racks))),
				Alive: rng.IntN(5) > 0, Votes: rng.IntN(2) == 0})
		}
		all[rng.IntN(len(all))].Leads = true
		got := Choose(all)
		verifyChoice(t, all, got)
		shuffled := slices.Clone(all)
		rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if other := Choose(shuffled); !slices.Equal(other, got) {
			t.Fatalf("%+v: %v, in another order %v", all, got, other)
		}
		// The result stays the same with other candidates, another leader, and voters that fail for a while.
		var later []Candidate
		for _, c := range all {
			if c.Votes = slices.Contains(got, c.ID); c.Votes || rng.IntN(2) == 0 {
				c.Leads, c.Alive = false, rng.IntN(2) == 0
				later = append(later, c)
			}
		}
		later[rng.IntN(len(later))].Leads = true
		if again := Choose(later); !slices.Equal(again, got) {
			t.Fatalf("%+v: %v, then with %+v %v", all, got, later, again)
		}
	}
}

// verifyChoice checks that the voters are odd in number, spread, and no more than the members allow.
func verifyChoice(t *testing.T, all []Candidate, got []uint64) {
	t.Helper()
	per := map[string]int{}
	size := map[string]int{}
	datacenters := map[string]bool{}
	for _, c := range all {
		datacenters[c.Datacenter] = true
	}
	domain := func(c Candidate) string { return c.Datacenter }
	if len(datacenters) == 1 {
		domain = func(c Candidate) string { return c.Rack }
	}
	for _, c := range all {
		size[domain(c)]++
		if slices.Contains(got, c.ID) {
			per[domain(c)]++
		}
	}
	most := votersMax
	if len(datacenters) >= 3 {
		most = votersMaxDatacenters
	}
	if len(got)%2 != 1 || len(got) > most {
		t.Fatalf("%+v: %d voters", all, len(got))
	}
	feasible := func(n int) bool {
		sum := 0
		for _, s := range size {
			limit := n
			if len(size) >= 3 && n > 1 {
				limit = (n - 1) / 2
			}
			sum += min(s, limit)
		}
		return sum >= n
	}
	if more := len(got) + 2; more <= most && feasible(more) {
		t.Fatalf("%+v: %d voters, %d are possible", all, len(got), more)
	}
	for name, n := range per {
		if len(size) >= 3 && len(got) > 1 && n > (len(got)-1)/2 {
			t.Fatalf("%+v: %s has %d of %d voters, a majority depends on it", all, name, n, len(got))
		}
		for other, m := range size {
			if o := per[other]; o < n-1 && o < m {
				t.Fatalf("%+v: %s has %d voters, %s with %d members %d", all, name, n, other, m, o)
			}
		}
	}
}
