package lenient

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

type shape struct {
	Text    string            `json:"text"`
	Yes     bool              `json:"yes"`
	Count   int32             `json:"count"`
	Ratio   float64           `json:"ratio,omitempty"`
	Maybe   *int64            `json:"maybe"`
	Part    part              `json:"part"`
	Pointer *part             `json:"pointer"`
	List    []part            `json:"list"`
	Words   []string          `json:"words"`
	Tags    map[string]string `json:"tags"`
	Any     json.RawMessage   `json:"any"`
	Ours    string
}

type part struct {
	Name string `json:"name"`
}

func TestDecode(t *testing.T) {
	t.Parallel()
	five := int64(5)
	for _, c := range []struct {
		name, reason, in string
		sensitive        bool
		want             shape
		fields           []string // that problems name; a warning has a ? before it
		unread           []string
	}{
		{
			name: "everything", reason: "it is what it is",
			in: `{"text":"a","yes":true,"count":1,"ratio":0.5,"maybe":5,"part":{"name":"b"},"pointer":{"name":"c"},` +
				`"list":[{"name":"d"}],"words":["e"],"tags":{"f":"g"},"any":[1]}`,
			want: shape{
				"a", true, 1, 0.5, &five,
				part{"b"},
				&part{"c"},
				[]part{{"d"}},
				[]string{"e"},
				map[string]string{"f": "g"},
				json.RawMessage("[1]"), "",
			},
		},
		{
			name: "null", reason: "encoding/json leaves the field as it is",
			in: `{"text":null,"maybe":null,"part":null,"pointer":null,"list":null,"tags":null,"any":null}`,
		},
		{name: "empty", reason: "classes that mean the same are equal", in: `{"list":[],"words":[],"tags":{}}`},
		{name: "case", reason: "encoding/json does not look at it", in: `{"TEXT":"a"}`, want: shape{Text: "a"}},
		{
			name: "two spellings", reason: "the exact one counts, wherever it stands", in: `{"text":"a","Text":"b","tExt":"c"}`,
			want: shape{Text: "a"}, fields: []string{"?providerSpec.Text", "?providerSpec.tExt"},
		},
		{
			name: "sensitive", reason: "some of MCM's drivers decode as the API server does", in: `{"Text":"a","count":1}`,
			sensitive: true,
			want:      shape{Count: 1}, fields: []string{"?providerSpec.Text"},
		},
		{
			name: "not known", reason: "MCM ignores it; the user should know", in: `{"txt":"a","list":[{"nam":"b"}],"Ours":"x"}`,
			want: shape{List: []part{{}}}, fields: []string{
				"?providerSpec.Ours", "?providerSpec.list[0].nam",
				"?providerSpec.txt",
			},
		},
		{
			name: "wrong types", reason: "all are told at once, and what is right is there",
			in: `{"text":1,"yes":"no","count":1.5,"maybe":"x","part":[],"pointer":7,"list":[3,{"name":"d"},{"name":4}],` +
				`"words":{},"tags":{"a":1,"b":"c"},"any":1}`,
			want: shape{
				List: []part{{}, {"d"}, {}}, Pointer: &part{}, Tags: map[string]string{"a": "", "b": "c"},
				Any: json.RawMessage("1"),
			},
			fields: []string{
				"providerSpec.count", "providerSpec.list[0]", "providerSpec.list[2].name", "providerSpec.maybe",
				"providerSpec.part",
				"providerSpec.pointer", "providerSpec.tags[a]", "providerSpec.text", "providerSpec.words", "providerSpec.yes",
			},
			unread: []string{"count", "list[0]", "list[2].name", "maybe", "part", "pointer", "tags[a]", "text", "words", "yes"},
		},
		{
			name: "a map of another type", reason: "it is told once", in: `{"tags":[]}`, fields: []string{"providerSpec.tags"},
			unread: []string{"tags"},
		},
	} {
		var got shape
		found := Decode(json.RawMessage(c.in), &got, Options{CaseSensitive: c.sensitive})
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s, because %s: -want +got:\n%s", c.name, c.reason, diff)
		}
		if diff := cmp.Diff(c.fields, named(found.Problems)); diff != "" {
			t.Errorf("%s, because %s: problems -want +got:\n%s", c.name, c.reason, diff)
		}
		if diff := cmp.Diff(c.unread, found.Unread); diff != "" || found.Bad {
			t.Errorf("%s, because %s: bad %v, unread -want +got:\n%s", c.name, c.reason, found.Bad, diff)
		}
	}
}

// named returns the fields of problems, sorted.
func named(problems []cloud.Problem) []string {
	var fields []string
	for _, p := range problems {
		mark := ""
		if p.Severity == cloud.Warning {
			mark = "?"
		}
		fields = append(fields, mark+p.Field)
	}
	slices.Sort(fields)
	return fields
}

func TestNoObject(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "null", "[]", "1", `"x"`, "{", "{}x"} {
		var got shape
		found := Decode(json.RawMessage(in), &got, Options{Hint: "text and tags"})
		if len(found.Problems) != 1 || !found.Bad || found.Problems[0].Severity != cloud.BlocksAll ||
			found.Problems[0].Field != "providerSpec" || !strings.HasSuffix(found.Problems[0].Message,
			"write one with text and tags") {
			t.Errorf("%q: got %+v, want one problem with the whole", in, found)
		}
	}
}

func TestSeverity(t *testing.T) {
	t.Parallel()
	var got shape
	found := Decode(json.RawMessage(`{"text":1,"Part":{"name":2}}`), &got,
		Options{Severity: func(path string) cloud.Severity {
			if path == "Part.name" {
				return cloud.BlocksAll
			}
			return cloud.BlocksCreate
		}})
	want := []cloud.Problem{
		{Severity: cloud.BlocksAll, Field: "providerSpec.Part.name", Message: "is the number 2 and has to be a string"},
		{Severity: cloud.BlocksCreate, Field: "providerSpec.text", Message: "is the number 1 and has to be a string"},
	}
	if diff := cmp.Diff(want, found.Problems); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// FuzzDecode takes anything without a panic, and takes what encoding/json takes
// as that does.
func FuzzDecode(f *testing.F) {
	for _, in := range []string{
		`{}`, `{"text":"a","TEXT":"b"}`, `{"list":[{"name":"a"},null]}`, `{"tags":{"a":null}}`,
		`{"any":{}}`, `null`, `{"maybe":1e3}`,
	} {
		f.Add([]byte(in))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var got shape
		found := Decode(in, &got, Options{})
		for _, p := range found.Problems {
			if p.Message == "" || !strings.HasPrefix(p.Field, "providerSpec") {
				t.Errorf("got problem %+v", p)
			}
		}
		var want shape
		if err := json.Unmarshal(in, &want); (err == nil) != (len(found.Unread) == 0 && !found.Bad) && string(in) != "null" &&
			!hasOurs(in) {
			t.Errorf("encoding/json says %v, we have not read %q", err, found.Unread)
		}
	})
}

// hasOurs reports whether the field without a tag may be among the keys, which
// encoding/json decodes by its name.
func hasOurs(in []byte) bool { return strings.Contains(strings.ToLower(string(in)), "ours") }
