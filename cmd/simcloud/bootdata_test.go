package main

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"
)

func packed(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestReadBootData(t *testing.T) {
	t.Parallel()
	const whole = "#cloud-config\nserver: https://h\ncaData: QQ==\ntoken: a.b\nnodeName: n\nwrite_files: []\n"
	cases := map[string]struct {
		reason string
		raw    []byte
		want   string // part of the error; empty is none
	}{
		"Whole":    {"the ordinary case, with what others read beside it", []byte(whole), ""},
		"Packed":   {"it may be compressed", packed(t, whole), ""},
		"JSON":     {"JSON is YAML", []byte(`{"server":"https://h","token":"a.b"}`), ""},
		"Never":    {"what never joins needs nothing", []byte("join: never"), ""},
		"Empty":    {"there is nothing to do", nil, "no user data"},
		"CutOff":   {"broken compression is named", packed(t, whole)[:20], "unpack"},
		"List":     {"the form is wrong", []byte("- a"), "no YAML of the expected form"},
		"NoServer": {"nobody to join", []byte("token: a.b"), "no server"},
		"NoToken":  {"nothing to join with", []byte("server: https://h"), "no token"},
		"Placeholder": {
			"somebody forgot to fill it in", []byte("server: https://h\ntoken: <<BOOTSTRAP_TOKEN>>"),
			"placeholder for token",
		},
		"CA": {"the CA is base64", []byte("server: https://h\ntoken: a.b\ncaData: '?'"), "no base64"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, err := readBootData(c.raw)
			if c.want == "" {
				if err != nil {
					t.Errorf("%s: %v", c.reason, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v from %+v, want an error with %q", c.reason, err, b, c.want)
			}
		})
	}
}

func TestBehaviourMerged(t *testing.T) {
	t.Parallel()
	boot := behaviour{Join: new("never"), Ready: new(true), Conditions: map[string]string{"A": "True", "B": "True"}}
	got := boot.merged(behaviour{Join: new("always"), Conditions: map[string]string{"B": "False"}})
	if !got.joins() || !yes(got.Ready) || !yes(got.Pods) || got.Conditions["A"] != "True" ||
		got.Conditions["B"] != "False" {
		t.Errorf("got %+v, want what was set by hand over the rest", got)
	}
	if boot.joins() || boot.Conditions["B"] != "True" {
		t.Errorf("merging changes what it was merged into: %+v", boot)
	}
}

func FuzzReadBootData(f *testing.F) {
	f.Add([]byte("#cloud-config\nserver: s\ntoken: t\n"))
	f.Add([]byte{0x1f, 0x8b})
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = readBootData(raw) })
}
