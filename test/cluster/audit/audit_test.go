package audit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster/audit"
)

const (
	create = `{"stage":"ResponseComplete","verb":"create",` +
		`"requestURI":"/apis/machine.sapcloud.io/v1alpha1/namespaces/a/machines?x=y",` +
		`"user":{"username":"manager"},"userAgent":"manager/v1",` +
		`"objectRef":{"resource":"machines","namespace":"a","name":"m1",` +
		`"apiGroup":"machine.sapcloud.io"},"responseStatus":{"code":201}}` + "\n"
	patch = `{"verb":"patch","user":{"username":"manager"},` +
		`"objectRef":{"resource":"nodes","name":"n1","subresource":"status"},"responseStatus":{"code":200}}` + "\n"
	probe = `{"verb":"get","requestURI":"/readyz?verbose","user":{"username":"kubelet"},"responseStatus":{"code":200}}` +
		"\n"
)

func write(t *testing.T, text string) audit.Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return audit.Log{Path: path}
}

func TestCount(t *testing.T) {
	t.Parallel()
	entries, err := write(t, create+create+patch+probe).Since(0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[audit.Key]int{
		{User: "manager", Verb: "create", Target: "machines.machine.sapcloud.io"}: 2,
		{User: "manager", Verb: "patch", Target: "nodes/status"}:                  1,
		{User: "kubelet", Verb: "get", Target: "/readyz"}:                         1,
	}
	if diff := cmp.Diff(want, audit.Count(entries)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	table := audit.Table(audit.Count(entries))
	if first, _, _ := strings.Cut(table, "\n"); !strings.Contains(first, "2  create") {
		t.Errorf("the table does not begin with the most frequent request:\n%s", table)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	log := write(t, create+patch+probe)
	cases := map[string]struct {
		reason string
		keep   []audit.Filter
		want   int
	}{
		"None":     {"No filter keeps all.", nil, 3},
		"User":     {"Only the user's.", []audit.Filter{audit.User("manager")}, 2},
		"Both":     {"All filters have to agree.", []audit.Filter{audit.User("manager"), audit.Verb("patch", "get")}, 1},
		"Not":      {"The others.", []audit.Filter{audit.Not(audit.User("manager"))}, 1},
		"Resource": {"Of whatever group.", []audit.Filter{audit.Resource("machines", "nodes")}, 2},
		"Agent":    {"By the beginning.", []audit.Filter{audit.UserAgent("manager/")}, 1},
	}
	for name, c := range cases {
		entries, err := log.Since(0, c.keep...)
		if err != nil || len(entries) != c.want {
			t.Errorf("%s: %s got %d entries (%v), want %d", name, c.reason, len(entries), err, c.want)
		}
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	log := write(t, create+patch+probe[:20])
	end, err := log.End()
	if err != nil || int(end) != len(create+patch) {
		t.Errorf("the end of a log whose last line is unfinished: got %d (%v), want %d", end, err, len(create+patch))
	}
	entries, err := log.Since(audit.Mark(len(create)))
	if err != nil || len(entries) != 1 || entries[0].Verb != "patch" {
		t.Errorf("since the first line: got %v (%v), want the patch", entries, err)
	}
	entries, err = log.Between(0, audit.Mark(len(create)))
	if err != nil || len(entries) != 1 || entries[0].Verb != "create" {
		t.Errorf("up to the first line: got %v (%v), want the create", entries, err)
	}
	visited := 0
	if err := log.Each(audit.Mark(len(create)), end, func(audit.Entry) { visited++ }); err != nil || visited != 1 {
		t.Errorf("each from the first line to the second: visited %d (%v), want 1", visited, err)
	}
	at, found, err := log.Find(0, audit.Verb("patch"))
	if err != nil || !found || at != end {
		t.Errorf("find the patch: got %d, %v (%v), want %d", at, found, err, end)
	}
	if _, found, _ := log.Find(end, audit.Verb("patch")); found {
		t.Error("found the patch behind itself")
	}
}

func TestNoLogIsEmpty(t *testing.T) {
	t.Parallel()
	log := audit.Log{Path: filepath.Join(t.TempDir(), "none")}
	end, err := log.End()
	entries, err2 := log.Since(end)
	if err != nil || err2 != nil || end != 0 || len(entries) != 0 {
		t.Errorf("got %d, %v, %v, %v, want nothing", end, err, entries, err2)
	}
}

func TestBrokenLineIsAnError(t *testing.T) {
	t.Parallel()
	if _, err := write(t, create+"{nonsense\n").Since(0); err == nil {
		t.Error("a line that is no JSON was taken")
	}
}
