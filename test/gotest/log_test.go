package main

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheEndSaysWhatFailed(t *testing.T) {
	t.Parallel()
	var many, manyNames strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, `{"Action":"fail","Package":"p","Test":"T%d"}`+"\n", i)
		if i < 19 {
			fmt.Fprintf(&manyNames, "--- FAIL: p T%d\n", i)
		}
	}
	cases := map[string]struct{ reason, events, want string }{
		"Nothing": {"A log that is fine ends as go test ends it.", `{"Action":"output","Package":"p","Output":"ok p\n"}
{"Action":"pass","Package":"p"}`, "ok p\n"},
		"Part": {
			"Only the part that failed is told of, with its last words.",
			`{"Action":"output","Package":"p","Test":"T/a","Output":"=== RUN T/a\n"}
{"Action":"output","Package":"p","Test":"T/a","Output":"  a_test.go:1: bad\n"}
{"Action":"fail","Package":"p","Test":"T/a"}
{"Action":"fail","Package":"p","Test":"T"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"fail","Package":"p"}`, "=== RUN T/a\n  a_test.go:1: bad\nFAIL\n" +
				"\n=== 1 failed\n--- FAIL: p T/a\n    a_test.go:1: bad\n",
		},
		"Logs": {
			"The logs of processes, which a test shows last, do not hide what it says.",
			`{"Action":"output","Package":"p","Test":"T","Output":"  a_test.go:1: bad\n"}
{"Action":"output","Package":"p","Test":"T","Output":"      more\n"}
{"Action":"output","Package":"p","Test":"T","Output":"      last lines of server:\n      \tlistens\n"}
{"Action":"output","Package":"p","Test":"T","Output":"  a_test.go:2: last lines of client:\n      \tdials\n"}
{"Action":"output","Package":"p","Test":"T","Output":"  a_test.go:3: worse\n"}
{"Action":"fail","Package":"p","Test":"T"}
{"Action":"fail","Package":"p"}`,
			"  a_test.go:1: bad\n      more\n      last lines of server:\n      \tlistens\n" +
				"  a_test.go:2: last lines of client:\n      \tdials\n  a_test.go:3: worse\n" +
				"\n=== 1 failed\n--- FAIL: p T\n    a_test.go:1: bad\n    more\n    a_test.go:3: worse\n",
		},
		"Build": {
			"What does not compile says why.",
			`{"Action":"build-output","ImportPath":"p [p.test]","Output":"p.go:1:1: no\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`, "p.go:1:1: no\nFAIL\tp [build failed]\n" +
				"\n=== 1 failed\n--- FAIL: p\n    p.go:1:1: no\n",
		},
		"Apart": {
			"Packages that run at the same time are printed one after the other.",
			`{"Action":"output","Package":"p","Output":"p1\n"}
{"Action":"output","Package":"q","Output":"q1\n"}
{"Action":"output","Package":"p","Output":"p2\n"}
{"Action":"pass","Package":"q"}
{"Action":"pass","Package":"p"}`, "q1\np1\np2\n",
		},
		"Many": {"The names of many failures fit into the end of a log.", many.String(), "\n=== 100 failed\n" +
			manyNames.String() + "and 81 more\n"},
		"Text": {"What is no event is passed on.", "go: no such module\n", "go: no such module\n"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			l := newLog(&out)
			if err := l.read(strings.NewReader(tc.events)); err != nil {
				t.Fatal(err)
			}
			l.end()
			if out.String() != tc.want {
				t.Errorf("printed %q, want %q: %s", out.String(), tc.want, tc.reason)
			}
		})
	}
}

// TestSplit: each part is a run of its own; an argument that gets into another one would change what is tested.
func TestSplit(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-race ./a":            "[-race ./a]",
		"-race ./a -- ./b ./c": "[-race ./a] [./b ./c]",
	} {
		var parts []string
		for part := range split(strings.Fields(args)) {
			parts = append(parts, fmt.Sprint(part))
		}
		if got := strings.Join(parts, " "); got != want {
			t.Errorf("%q is split into %s, want %s", args, got, want)
		}
	}
}
