package azuretables

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"cqld/auth"
)

// keyOf returns the n-th key of the tests.
func keyOf(n int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "key number %08d", n))
}

func signWith(key, s string) string {
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		panic(err)
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(s))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// roles is a directory that tests change.
type roles struct {
	t *testing.T
	d *auth.Directory
}

func (r *roles) change(c auth.Change) {
	r.t.Helper()
	var err error
	if r.d, err = auth.Apply(r.d, c); err != nil {
		r.t.Fatal(err)
	}
}

func (r *roles) setKeys(account, key1, key2 string) {
	r.t.Helper()
	settings := auth.RoleSettings{Tables: &auth.TablesSettings{Account: account, Keys: [2]*string{&key1, &key2}}}
	r.change(&auth.AlterRole{Name: "shopper", Settings: settings})
}

// newAccountBench returns a server with the account shop, of the role shopper, and its directory.
func newAccountBench(t *testing.T, change func(*Options)) (*bench, *roles) {
	t.Helper()
	r, login := &roles{t, auth.NewDirectory()}, true
	r.change(&auth.CreateRole{Name: "shopper", Settings: auth.RoleSettings{Login: &login}})
	r.setKeys("shop", keyOf(1), keyOf(2))
	return newBench(t, func(o *Options) {
		o.Directory = func() *auth.Directory { return r.d }
		if change != nil {
			change(o)
		}
	}), r
}

// ways returns requests for the tables or entities of an account, each authorized in another way with a key.
func (b *bench) ways(account, key string) map[string]string {
	date, expiry := b.date(), b.clock.Now().Add(time.Hour).Format("2006-01-02T15:04:05Z")
	header := func(scheme, toSign string) string {
		return "GET /" + account + "/Tables\nx-ms-date: " + date + "\nAuthorization: " + scheme + " " + account + ":" +
			signWith(key, toSign)
	}
	const from, version = "127.0.0.0-127.255.255.255", "2019-02-02"
	accountSAS := strings.Join([]string{account, "rl", "t", "sco", "", expiry, from, "https,http", version, ""}, "\n")
	tableSAS := strings.Join([]string{"r", "", expiry, "/table/" + account + "/nosuch", "", from, "https,http",
		version, "", "", "", ""}, "\n")
	query := func(values url.Values, toSign string) string {
		for name, value := range map[string]string{"se": expiry, "sip": from, "spr": "https,http", "sv": version,
			"sig": signWith(key, toSign)} {
			values.Set(name, value)
		}
		return values.Encode()
	}
	return map[string]string{
		"SharedKey":     header("SharedKey", "GET\n\n\n"+date+"\n/"+account+"/"+account+"/Tables"),
		"SharedKeyLite": header("SharedKeyLite", date+"\n/"+account+"/"+account+"/Tables"),
		"account SAS": "GET /" + account + "/Tables?" +
			query(url.Values{"sp": {"rl"}, "ss": {"t"}, "srt": {"sco"}}, accountSAS),
		"table SAS": "GET /" + account + "/nosuch()?" + query(url.Values{"sp": {"r"}, "tn": {"nosuch"}}, tableSAS),
	}
}

// accepted checks whether an account accepts a key, in every way.
func (b *bench) accepted(account, key string, want bool) {
	b.t.Helper()
	for way, text := range b.ways(account, key) {
		resp, body := b.send(text)
		if got := resp.StatusCode == 200 || resp.StatusCode == 404; got != want || !want &&
			!strings.Contains(body, "AuthenticationFailed") {
			b.t.Errorf("%s with a key of %s: %d %s, want accepted: %v", way, account, resp.StatusCode, body, want)
		}
	}
}

// TestBothKeysAreAccepted signs in every way with both keys, while they are rotated and removed. The connection stays
// open.
func TestBothKeysAreAccepted(t *testing.T) {
	b, r := newAccountBench(t, nil)
	for _, step := range []struct {
		key1, key2 int
		valid      []int
	}{{1, 2, []int{1, 2}}, {3, 2, []int{3, 2}}, {3, 4, []int{3, 4}}, {0, 4, []int{4}}, {1, 0, []int{1}}} {
		keys := [2]string{}
		for i, n := range []int{step.key1, step.key2} {
			if n > 0 {
				keys[i] = keyOf(n)
			}
		}
		r.setKeys("shop", keys[0], keys[1])
		valid := map[int]bool{}
		for _, n := range step.valid {
			valid[n] = true
		}
		for n := 1; n <= 4; n++ {
			b.accepted("shop", keyOf(n), valid[n])
		}
	}
	r.change(&auth.AlterRole{Name: "shopper", Settings: auth.RoleSettings{Tables: &auth.TablesSettings{Account: "shop",
		Drop: true}}})
	b.accepted("shop", keyOf(1), false)
	if len(b.server.accounts.kept) > 0 {
		t.Error("keys of the removed account are kept")
	}
}

// TestAccountsOfTheDirectoryComeFirst checks which account is served if several have a name.
func TestAccountsOfTheDirectoryComeFirst(t *testing.T) {
	const races = "cmFjZXMgcmFjZXMgcmFjZXMh"
	b, r := newAccountBench(t, nil)
	b.accepted("races", races, true)
	r.setKeys("races", keyOf(1), "")
	b.accepted("races", races, false)
	b.accepted("races", keyOf(1), true)
	r.change(&auth.DropRole{Name: "shopper"})
	b.accepted("races", races, true)
	b.accepted("shop", keyOf(1), false)
}

// TestDevelopmentAccountIsServedAlone checks that the account whose key is public disappears with the first other
// account.
func TestDevelopmentAccountIsServedAlone(t *testing.T) {
	b, r := newAccountBench(t, func(o *Options) { o.Accounts, o.Development = nil, true })
	b.accepted(DevelopmentAccount, DevelopmentKey, false)
	r.change(&auth.DropRole{Name: "shopper"})
	b.accepted(DevelopmentAccount, DevelopmentKey, true)
	never, _ := newAccountBench(t, func(o *Options) { o.Accounts = nil })
	never.accepted(DevelopmentAccount, DevelopmentKey, false)
}

// TestRolesOfAccountsMayBeRefused checks LOGIN, and restrictions of the role.
func TestRolesOfAccountsMayBeRefused(t *testing.T) {
	refuse, asked := false, ""
	b, r := newAccountBench(t, func(o *Options) {
		o.Admit = func(role string, client netip.Addr) error {
			if asked = role + " from " + client.String(); refuse {
				return errors.New("not from here")
			}
			return nil
		}
	})
	check := func(want int) {
		t.Helper()
		for way, text := range b.ways("shop", keyOf(2)) {
			resp, body := b.send(text)
			if resp.StatusCode != want && !(want == 200 && resp.StatusCode == 404) || want == 403 &&
				!strings.Contains(body, "AuthorizationFailure") {
				t.Errorf("%s: %d %s", way, resp.StatusCode, body)
			}
		}
	}
	check(200)
	if asked != "shopper from 127.0.0.1" {
		t.Errorf("restrictions of %s", asked)
	}
	refuse = true
	check(403)
	refuse = false
	no := false
	r.change(&auth.AlterRole{Name: "shopper", Settings: auth.RoleSettings{Login: &no}})
	check(403)
}

// TestAccountsCannotBeProbed checks that clients without a key get the same answers for an account that exists and for
// one that does not, in both forms of URLs.
func TestAccountsCannotBeProbed(t *testing.T) {
	b := newBench(t, nil)
	authorized := func(scheme, signature string) string {
		return "x-ms-date: " + b.date() + "\nAuthorization: " + scheme + " ACCOUNT:" + signature
	}
	wrong := base64.StdEncoding.EncodeToString(make([]byte, sha256.Size))
	cors := "Origin: http://race.example\nAccess-Control-Request-Method: "
	for _, request := range []string{
		"OPTIONS /T\n" + cors + "PUT",
		"OPTIONS /T\n" + cors + "PUT\nAccess-Control-Request-Headers: x-ms-version",
		"OPTIONS /\n" + cors + "GET",
		"OPTIONS /T",
		"OPTIONS /T('\n" + cors + "GET",
		"GET /T\n" + authorized("SharedKey", wrong),
		"GET /T\n" + authorized("Bearer", wrong),
		"GET /T?comp=acl\n" + authorized("SharedKey", "x") + "\nAccept: application/xml",
		"GET /T?$top=%\n" + authorized("SharedKey", wrong),
		"GET /Tables('\n" + authorized("SharedKey", wrong),
		"GET /%\n" + authorized("SharedKey", wrong),
		"GET /\n" + authorized("SharedKeyLite", wrong),
		"GET /T?sig=" + wrong + "&sv=2019-02-02&tn=t&sp=r&se=2100-01-01",
		"GET /T?sig=" + wrong + "&sig=again",
		"POST /$batch\n" + authorized("SharedKey", wrong),
	} {
		answer := func(account string, dotted bool) string {
			text, host := request, "127.0.0.1:10002"
			if dotted {
				host = account + ".tables.example.com"
			} else {
				text = strings.Replace(text, " /", " /"+account+"/", 1)
			}
			resp, body := b.send(strings.ReplaceAll(text, "ACCOUNT", account) + "\nHost: " + host)
			body = strings.ReplaceAll(body, resp.Header.Get("X-Ms-Request-Id"), "ID")
			return show(resp, body)
		}
		for _, dotted := range []bool{false, true} {
			if known, unknown := answer("races", dotted), answer("noaccount", dotted); known != unknown {
				t.Errorf("%s\nof an account:\n%s\nwithout:\n%s", request, known, unknown)
			}
		}
	}
}
