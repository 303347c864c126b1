package gcptest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const computeURL = "https://compute.googleapis.com/compute/v1/projects/"

// ask makes a request of the API, and returns the status and what the gate reported.
func ask(t *testing.T, verb, path, body string) (status int, reported string) {
	t.Helper()
	c := New(Options{
		Now:    func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) },
		Report: func(what string, _ []byte) { reported += what },
	})
	r := httptest.NewRequestWithContext(t.Context(), verb, computeURL+Project+path,
		strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+c.token())
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Code, reported
}

// instance is a request for an instance with a field added, which may be one that it has.
func instance(t *testing.T, field string, value any) string {
	t.Helper()
	all := map[string]any{
		"name": "m-1", "machineType": "zones/europe-west1-b/machineTypes/n2-standard-2",
		"disks":             []any{map[string]any{"boot": true, "initializeParams": map[string]any{"sourceImage": "i"}}},
		"networkInterfaces": []any{map[string]any{"network": "global/networks/default"}},
	}
	if all[field] = value; value == nil {
		delete(all, field)
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGate: a request that the cloud would refuse for its form is refused here too, and reported, or
// a driver passes that never could. Each row is a form of mistake.
func TestGate(t *testing.T) {
	t.Parallel()
	const insert = "/zones/europe-west1-b/instances"
	for name, row := range map[string]struct {
		path, body, want string
	}{
		"unknown field":     {insert, instance(t, "colour", "red"), "unknown field"},
		"wrong type":        {insert, instance(t, "canIpForward", "yes"), "type boolean"},
		"a number for text": {insert, instance(t, "description", 5), "type string"},
		"read-only":         {insert, instance(t, "status", "RUNNING"), "written by the cloud"},
		"missing": {
			insert, instance(t, "name", nil), "required field",
		},
		"form":         {insert, instance(t, "name", "M_1"), "does not match"},
		"enum":         {insert, instance(t, "keyRevocationActionType", "MAYBE"), "none of"},
		"large number": {insert, instance(t, "disks", []any{map[string]any{"diskSizeGb": "many"}}), "format int64"},
		"no list":      {insert, instance(t, "disks", "d"), "no list"},
		"no object":    {insert, instance(t, "labels", "l"), "no object"},
		"parameter":    {insert + "?dryRun=true", instance(t, "labels", nil), "unknown parameter"},
		"method":       {insert + "/m-1/explode", "", "unknown method"},
	} {
		status, reported := ask(t, http.MethodPost, row.path, row.body)
		if status/100 != 4 || !strings.Contains(reported, row.want) {
			t.Errorf("%s: got status %d, report %q, want a refusal and %q", name, status, reported, row.want)
		}
	}
	status, reported := ask(t, http.MethodPost, insert, instance(t, "labels", nil))
	if status != http.StatusOK || reported != "" {
		t.Errorf("a request without mistakes: got status %d, report %q", status, reported)
	}
}

// TestRules: what the description of the API does not say and the cloud refuses. It is no report:
// a class may ask for it.
func TestRules(t *testing.T) {
	t.Parallel()
	item := func(key string) any { return map[string]any{"key": key, "value": "v"} }
	for name, row := range map[string]struct {
		field string
		value any
	}{
		"a label with capitals": {"labels", map[string]any{"Team": "a"}},
		"a type of no zone":     {"machineType", "zones/europe-west1-b/machineTypes/huge"},
		"no boot disk":          {"disks", []any{map[string]any{"initializeParams": map[string]any{}}}},
		"a key twice":           {"metadata", map[string]any{"items": []any{item("a"), item("a")}}},
		"no interface":          {"networkInterfaces", []any{}},
		"spot that restarts":    {"scheduling", map[string]any{"preemptible": true, "automaticRestart": true}},
		"GPUs that migrate":     {"guestAccelerators", []any{map[string]any{"acceleratorCount": 1}}},
	} {
		status, reported := ask(t, http.MethodPost, "/zones/europe-west1-b/instances", instance(t, row.field, row.value))
		if status != http.StatusBadRequest || reported != "" {
			t.Errorf("%s: got status %d, report %q, want 400 and no report", name, status, reported)
		}
	}
}

// TestFields: a listing that leaves out what a driver needs has to break the driver's tests, so the
// double leaves it out as well.
func TestFields(t *testing.T) {
	t.Parallel()
	whole := map[string]any{
		"id": "1", "next": "n", "items": map[string]any{"zones/z": map[string]any{
			"vms": []any{map[string]any{"name": "a", "secret": "s", "tags": map[string]any{"items": "i", "print": "p"}}},
		}},
	}
	short := map[string]any{
		"next": "n", "items": map[string]any{"zones/z": map[string]any{
			"vms": []any{map[string]any{"name": "a", "tags": map[string]any{"items": "i"}}},
		}},
	}
	for mask, row := range map[string]struct {
		reason string
		want   map[string]any
	}{
		"next,items/*/vms(name,tags(items))":            {"lists are looked through, maps by *", short},
		"next,items(*(vms(name,tags/items)))":           {"slashes and parentheses mean the same", short},
		"next,items/*/vms/name,items/*/vms(tags/items)": {"two selectors of one field add up", short},
		"next,items(vms(name,tags(items)))": {"a map has no entry of that key", map[string]any{
			"next": "n", "items": map[string]any{},
		}},
		"id,items,items/*/vms/name,next": {"the wider one of two counts", whole},
	} {
		wanted, err := parseFields(mask)
		if err != nil {
			t.Errorf("%s: %v", mask, err)
		}
		if diff := cmp.Diff(row.want, project(whole, wanted)); diff != "" {
			t.Errorf("%s: -want +got:\n%s\nbecause: %s", mask, diff, row.reason)
		}
	}
}

// TestFieldsThatAreUnknown: the API refuses a mask that selects what the response does not have.
func TestFieldsThatAreUnknown(t *testing.T) {
	t.Parallel()
	for mask, row := range map[string]struct {
		reason string
		status int
	}{
		"nextPageToken,unreachables,items/*/warning(code),items/*/instances(name,labels,tags/items)": {
			"the form for a map by zone", http.StatusOK,
		},
		"items/*/instances/labels/team": {"labels are a map by key", http.StatusOK},
		"items/*/*":                     {"* takes all fields of an object", http.StatusOK},
		"items(instances(name))":        {"items is a map: its entries have to be selected", http.StatusBadRequest},
		"items(warning(code))":          {"items is a map: its entries have to be selected", http.StatusBadRequest},
		"items/*/vms":                   {"no such field", http.StatusBadRequest},
		"nextPageToken/code":            {"a text has no fields", http.StatusBadRequest},
		"items/*/instances(name":        {"the parenthesis stays open", http.StatusBadRequest},
		"items/*/instances(name))":      {"a parenthesis too many", http.StatusBadRequest},
		"nextPageToken,":                {"a selector is empty", http.StatusBadRequest},
		"items//instances":              {"a step is empty", http.StatusBadRequest},
		"nextPageToken, id":             {"a blank is part of no name", http.StatusBadRequest},
	} {
		status, reported := ask(t, http.MethodGet, "/aggregated/instances?fields="+url.QueryEscape(mask), "")
		if status != row.status || (reported != "") != (status != http.StatusOK) {
			t.Errorf("%s: got status %d, report %q, want %d\nbecause: %s", mask, status, reported, row.status, row.reason)
		}
	}
}
