package azuretables

import "testing"

func TestSignaturesAreRedacted(t *testing.T) {
	for query, want := range map[string]string{
		"":                                 "",
		"$filter=PartitionKey%20eq%20'a'":  "$filter=PartitionKey%20eq%20'a'",
		"sv=2019-02-02&sig=c2Vj%3D&se=x":   "sv=2019-02-02&sig=*******&se=x",
		"SIG=c2Vj":                         "sig=*******",
		"%73ig=c2Vj&a=b":                   "sig=*******&a=b",
		"a=b;sig=c2Vj":                     "a=b&sig=*******",
		"sig=c2Vj&sig=c2Vk":                "sig=*******&sig=*******",
		"$filter=a%20eq%20'sig'&design=aa": "$filter=a%20eq%20'sig'&design=aa",
	} {
		if got := redactQuery(query); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	a := Answer{path: "/acc/T", query: "sig=c2Vj"}
	if a.URL() != "/acc/T?sig=*******" {
		t.Error(a.URL())
	}
}
