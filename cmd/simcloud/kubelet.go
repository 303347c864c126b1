package main

import (
	"encoding/json"
	"net/http"
	"time"
)

// shownKubelet is what the owner of the cloud sees of a kubelet.
type shownKubelet struct {
	VM        string    `json:"vm"`
	NodeName  string    `json:"nodeName"`
	Running   bool      `json:"running"`
	Joined    time.Time `json:"joined,omitzero"`
	Attempts  int       `json:"attempts,omitempty"` // to join, that failed
	Behaviour behaviour `json:"behaviour"`
}

func (f *fleet) shown(id string) (shownKubelet, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.kubelet[id]
	if k == nil {
		return shownKubelet{}, false
	}
	return shownKubelet{
		VM: id, NodeName: k.nodeName, Running: k.running, Joined: k.joined, Attempts: k.attempts,
		Behaviour: k.boot.merged(k.over),
	}, true
}

// showKubelet answers with what a kubelet does.
func (f *fleet) showKubelet(w http.ResponseWriter, r *http.Request) {
	k, ok := f.shown(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, "NotFound", "there is no such VM")
		return
	}
	reply(w, http.StatusOK, k)
}

// patchKubelet changes how a kubelet does, from now on.
func (f *fleet) patchKubelet(w http.ResponseWriter, r *http.Request) {
	const bodyMax = 1 << 16
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, bodyMax))
	d.DisallowUnknownFields()
	var over behaviour
	if err := d.Decode(&over); err != nil {
		refuse(w, http.StatusBadRequest, "InvalidParameter", err.Error())
		return
	}
	id := r.PathValue("id")
	if !f.override(id, over) {
		refuse(w, http.StatusNotFound, "NotFound", "there is no such VM")
		return
	}
	f.showKubelet(w, r)
}

// override changes how a kubelet does. What over does not decide stays.
func (f *fleet) override(id string, over behaviour) bool {
	vm, _, ok := f.cloud.Look(id)
	if !ok || vm.VM == nil {
		return false
	}
	k := f.of(vm)
	f.mu.Lock()
	k.over = k.over.merged(over)
	node := k.nodeName
	f.mu.Unlock()
	f.queue.Add(id)
	if f.pods != nil {
		f.pods.joined(node)
	}
	return true
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]map[string]string{"error": {"code": code, "message": message}})
}

func reply(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // the caller has gone
}
