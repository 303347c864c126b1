package sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// admin adds what the cloud's owner can call, without credentials.
func (s *server) admin(mux *http.ServeMux) {
	route := func(pattern string, serve func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
			out, err := serve(r)
			answer(w, r, out, err)
		})
	}
	c := s.cloud
	route("GET /admin/settings", func(*http.Request) (any, error) { return c.Settings(), nil })
	route("PATCH /admin/settings", s.patchSettings)
	route("PUT /admin/capacity", s.putCapacity)
	route("GET /admin/faults", func(*http.Request) (any, error) { return c.Faults(), nil })
	route("POST /admin/faults", s.addFault)
	route("DELETE /admin/faults", func(*http.Request) (any, error) { return done(func() { c.RemoveFault(0) }) })
	route("DELETE /admin/faults/{id}", s.removeFault)
	route("GET /admin/ledger", func(r *http.Request) (any, error) { return only(c.Ledger(), r.FormValue("kind")), nil })
	route("GET /admin/resources", func(r *http.Request) (any, error) { return only(c.Live(), r.FormValue("kind")), nil })
	route("GET /admin/calls", func(*http.Request) (any, error) {
		return map[string]any{"total": c.Calls("*"), "counts": c.Counts()}, nil
	})
	route("GET /admin/log", func(*http.Request) (any, error) { return c.Log(), nil })
	route("GET /admin/vms/{id}/console", func(r *http.Request) (any, error) { return c.Console(r.PathValue("id")), nil })
	route("GET /admin/vms/{id}/user-data", s.userData)
	route("POST /admin/vms/{id}/{action}", s.act)
}

// patchSettings merges the body into the settings: objects are merged, lists
// are replaced, null takes a key away.
func (s *server) patchSettings(r *http.Request) (any, error) {
	patch, err := body[map[string]any](r)
	if err != nil {
		return nil, err
	}
	var failed error
	s.cloud.Change(func(settings *Settings) {
		changed, err := settings.Merge(patch)
		if err != nil {
			failed = refuse(CodeInvalidParameter, "the settings are not what is expected: %v", err)
			return
		}
		*settings = changed
	})
	if failed != nil {
		return nil, failed
	}
	return s.cloud.Settings(), nil
}

// Merge returns s with a JSON merge patch applied: objects are merged, lists are
// replaced, null takes a key away.
func (s *Settings) Merge(patch map[string]any) (Settings, error) {
	var current map[string]any
	text, err := json.Marshal(s)
	if err != nil {
		return Settings{}, fmt.Errorf("encode settings: %w", err)
	}
	if err := json.Unmarshal(text, &current); err != nil {
		return Settings{}, fmt.Errorf("decode settings: %w", err)
	}
	if text, err = json.Marshal(merge(current, patch)); err != nil {
		return Settings{}, fmt.Errorf("encode settings: %w", err)
	}
	var out Settings
	if err := json.Unmarshal(text, &out); err != nil {
		return Settings{}, fmt.Errorf("decode settings: %w", err)
	}
	return out, nil
}

func merge(into, patch map[string]any) map[string]any {
	if into == nil {
		into = map[string]any{}
	}
	for key, value := range patch {
		if value == nil {
			delete(into, key)
			continue
		}
		if object, ok := value.(map[string]any); ok {
			inner, _ := into[key].(map[string]any)
			value = merge(inner, object)
		}
		into[key] = value
	}
	return into
}

func (s *server) putCapacity(r *http.Request) (any, error) {
	in, err := body[struct {
		Zone         string `json:"zone"`
		InstanceType string `json:"instanceType"`
		VMs          int    `json:"vms"` // negative: without limit
	}](r)
	if err != nil {
		return nil, err
	}
	settings := s.cloud.Settings()
	if _, ok := find(settings.Zones, func(z Zone) bool { return z.Name == in.Zone }); !ok {
		return nil, refuse(CodeInvalidZone, "there is no zone %q", in.Zone)
	}
	return done(func() { s.cloud.SetCapacity(in.Zone, in.InstanceType, in.VMs) })
}

func (s *server) addFault(r *http.Request) (any, error) {
	f, err := body[Fault](r)
	if err != nil {
		return nil, err
	}
	switch f.Mode {
	case "", FaultBefore, FaultAfter, FaultDrop, FaultLost, FaultThrottle, FaultHang, FaultBoot:
	default:
		return nil, refuse(CodeInvalidParameter, "mode is %q and has to be before, after, drop, lost, throttle, hang or boot",
			f.Mode)
	}
	if f.Op == "" {
		return nil, refuse(CodeInvalidParameter, "op is missing; * is any operation")
	}
	s.cloud.AddFault(f)
	return s.cloud.Faults(), nil
}

func (s *server) removeFault(r *http.Request) (any, error) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 1 {
		return nil, refuse(CodeInvalidParameter, "%q is no id of a fault", r.PathValue("id"))
	}
	return done(func() { s.cloud.RemoveFault(id) })
}

// userData returns what a VM boots with, as its metadata service would.
func (s *server) userData(r *http.Request) (any, error) {
	id := r.PathValue("id")
	found, data, ok := s.cloud.Look(id)
	if !ok || found.VM == nil {
		return nil, refuse(CodeNotFound, "there is no VM %s", id)
	}
	return map[string][]byte{"userData": data}, nil
}

// act does to a VM what happens to VMs.
func (s *server) act(r *http.Request) (any, error) {
	id, ok := r.PathValue("id"), false
	switch action := r.PathValue("action"); action {
	case "terminate":
		ok = s.cloud.Terminate(id, "Terminated")
	case "reclaim":
		ok = s.cloud.Reclaim(id)
	case "stop":
		ok = s.cloud.Stop(id)
	case "start":
		ok = s.cloud.Start(id)
	case "fail":
		ok = s.cloud.Fail(id, "HardwareFailure", "the host has failed")
	default:
		return nil, refuse(CodeInvalidParameter, "%q is none of terminate, reclaim, stop, start, fail", action)
	}
	if !ok {
		return nil, refuse(CodeNotFound, "there is no VM %s, or it is being deleted", id)
	}
	out, _, _ := s.cloud.Look(id)
	return out, nil
}

// only keeps the resources of a kind; empty keeps all.
func only(all []Resource, kind string) []Resource {
	out := []Resource{}
	for _, r := range all {
		if kind == "" || r.Kind == kind {
			out = append(out, r)
		}
	}
	return out
}

// done does something that has no result.
func done(do func()) (any, error) {
	do()
	return map[string]string{"status": "done"}, nil
}
