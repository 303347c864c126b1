package openstack

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// backdoorPath is where the played Cinder answers tests: GET with the id of a
// project returns its volumes, POST adds one.
const backdoorPath = "/backdoor/"

// serveTests answers tests, which need no token.
func (c *cinder) serveTests(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet:
		reply(w, http.StatusOK, c.list(strings.TrimPrefix(r.URL.Path, backdoorPath)))
	case http.MethodPost:
		var v Volume
		if err := json.NewDecoder(r.Body).Decode(&v); err != nil {
			refuse(w, http.StatusBadRequest, "badRequest", err.Error())
			return
		}
		v.ID = c.add(v)
		reply(w, http.StatusCreated, v)
	default:
		refuse(w, http.StatusMethodNotAllowed, "badMethod", "The method is not allowed.")
	}
}

// Volumes returns the project's volumes, sorted by id.
func (p *Project) Volumes(t testing.TB) []Volume {
	t.Helper()
	all, err := p.LiveVolumes(context.WithoutCancel(t.Context())) // cleanups look, too
	if err != nil {
		t.Fatalf("list volumes: %v", err)
	}
	return all
}

// LiveVolumes returns the project's volumes, sorted by id.
func (p *Project) LiveVolumes(ctx context.Context) (all []Volume, err error) {
	err = p.atBackdoor(ctx, http.MethodGet, p.ID, nil, &all)
	return all, err
}

// AddVolume puts a volume into the project and returns its id.
func (p *Project) AddVolume(t testing.TB, v Volume) string {
	t.Helper()
	v.Project = p.ID
	if err := p.atBackdoor(t.Context(), http.MethodPost, "", v, &v); err != nil {
		t.Fatalf("add a volume: %v", err)
	}
	return v.ID
}

func (p *Project) atBackdoor(ctx context.Context, method, path string, body, out any) error {
	_, text, err := p.Rig.admin.send(ctx, method, p.Rig.CinderURL+backdoorPath+path, http.Header{}, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, out)
}
