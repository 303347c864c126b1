package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
)

func request(user, verb string, code, seconds int) audit.Entry {
	return audit.Entry{
		User: user, Verb: verb, Resource: "machines", Name: "p-1-a", Code: code, Received: at(seconds),
		Completed: at(seconds + 1),
	}
}

func TestLivesOf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		entries []audit.Entry
		seen    []sight
		want    []life
	}{
		"Whole": {
			"who made and ended it stands in the audit log, the rest was seen",
			[]audit.Entry{
				request("manager", "create", 201, 10), request("admin", "delete", 200, 50),
				request("manager", "delete", 200, 51),
			},
			[]sight{{
				name: "p-1-a", pool: "p", class: "c", owner: "1", created: at(10), ready: at(20), deleted: at(50),
				gone: true,
			}},
			[]life{{
				name: "p-1-a", pool: "p", class: "c", owner: "1", maker: "manager", asked: at(10), made: at(11),
				ready: at(20), ender: "admin", ended: at(50), gone: true,
			}},
		},
		"Refused": {
			"a request that was refused has no effect",
			[]audit.Entry{
				request("manager", "create", 201, 10), request("manager", "create", 409, 11),
				request("manager", "delete", 409, 12),
			},
			nil,
			[]life{{name: "p-1-a", pool: "p", maker: "manager", asked: at(10), made: at(11), gone: true}},
		},
		"NameTakenAgain": {
			"a name may come back, and is another Machine then",
			[]audit.Entry{
				request("manager", "create", 201, 10), request("manager", "delete", 200, 50),
				request("manager", "create", 201, 100),
			},
			[]sight{
				{name: "p-1-a", pool: "p", owner: "1", created: at(11), deleted: at(50), gone: true},
				{name: "p-1-a", pool: "p", owner: "2", created: at(101)},
			},
			[]life{
				{
					name: "p-1-a", pool: "p", owner: "1", maker: "manager", asked: at(10), made: at(11), ender: "manager",
					ended: at(50), gone: true,
				},
				{name: "p-1-a", pool: "p", owner: "2", maker: "manager", asked: at(100), made: at(101)},
			},
		},
		"EntriesLost": {
			"what died with the API server is taken from what was seen, and is laid to the manager",
			nil,
			[]sight{{name: "p-1-a", pool: "p", owner: "1", created: at(10), deleted: at(50)}},
			[]life{{
				name: "p-1-a", pool: "p", owner: "1", maker: "manager", asked: at(10), made: at(10), ender: "manager",
				ended: at(50),
			}},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, livesOf(c.entries, c.seen), cmp.AllowUnexported(life{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestViewIsOlderAfterDarkness(t *testing.T) {
	t.Parallel()
	h := &history{lag: 2 * time.Second, darkness: []span{{from: at(50), until: at(60)}, {from: at(90)}}}
	for seconds, want := range map[int]int{40: 38, 55: 48, 61: 48, 70: 68, 100: 88} {
		if got := h.view(at(seconds)); !got.Equal(at(want)) {
			t.Errorf("view at %ds is %s, want %ds", seconds, got.Sub(epoch), want)
		}
	}
}
