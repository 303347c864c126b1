package example_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

const (
	apiKey   = "s3cret/key+of=example"
	pageSize = 10
)

// object is a VM or a disk in the cloud.
type object struct {
	ID       string            `json:"id"`
	Key      string            `json:"key"`
	Zone     string            `json:"zone"`
	Type     string            `json:"type"`
	Image    string            `json:"image"`
	DiskGiB  int32             `json:"disk_gib"`
	State    string            `json:"state"`
	Address  string            `json:"address"`
	VM       string            `json:"vm"`
	Labels   map[string]string `json:"labels"`
	UserData []byte            `json:"user_data,omitempty"`
	Created  time.Time         `json:"created"`

	request []byte
}

// server is the cloud. Its VMs start at the first look at them.
type server struct {
	mu      sync.Mutex
	serial  int
	session int // the token that counts
	revoked bool
	shift   time.Duration // of the clock
	all     map[string][]*object
}

func newServer() *server { return &server{session: 1, all: map[string][]*object{}} }

// ServeHTTP answers one call.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case kind == "login":
		s.login(w, r)
	case r.Header.Get("Authorization") != fmt.Sprintf("Bearer t%d", s.session) || s.revoked:
		refuse(w, http.StatusUnauthorized, "session_ended", "log in again")
	case kind == "types":
		showType(w, id)
	case r.Method == http.MethodPost:
		s.create(w, r)
	case id == "":
		s.list(w, r, kind)
	default:
		s.one(w, r.Method, kind, id)
	}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	answer(w, map[string]string{"code": code, "message": message})
}

func answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Key string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Key != apiKey || s.revoked {
		refuse(w, http.StatusUnauthorized, "bad_key", "the key is refused")
		return
	}
	answer(w, map[string]string{"token": fmt.Sprintf("t%d", s.session)})
}

func showType(w http.ResponseWriter, name string) {
	if name != "small" && name != "large" {
		refuse(w, http.StatusNotFound, "unknown_type", "there is no type "+name)
		return
	}
	answer(w, map[string]any{"cpus": 2, "memory_mib": 4096, "architecture": "x86_64"})
}

// create makes a VM with its disk, or returns the one that was made under the same key.
func (s *server) create(w http.ResponseWriter, r *http.Request) {
	vm := &object{}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(vm)
	request, _ := json.Marshal(vm)
	switch {
	case err != nil || vm.Key == "" || vm.Image == "" || vm.DiskGiB < 1 || !labelled(vm.Labels):
		refuse(w, http.StatusBadRequest, "bad_request", "the request is not what the cloud expects")
		return
	case vm.Zone != "z1" && vm.Zone != "z2":
		refuse(w, http.StatusBadRequest, "unknown_zone", "there is no such zone")
		return
	case vm.Type != "small" && vm.Type != "large":
		refuse(w, http.StatusBadRequest, "unknown_type", "there is no such type")
		return
	}
	for _, old := range s.all["vms"] {
		switch {
		case old.Key != vm.Key:
		case string(old.request) != string(request):
			refuse(w, http.StatusConflict, "key_reused", "the key was used with another request")
			return
		default:
			answer(w, old)
			return
		}
	}
	vm.request, vm.State = request, "starting"
	s.add("vms", vm, 0)
	s.add("disks", &object{Labels: maps.Clone(vm.Labels), VM: vm.ID}, 0)
	answer(w, vm)
}

// labelled reports whether the cloud takes these labels.
func labelled(labels map[string]string) bool {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789_-"
	const most = 63
	for key, value := range labels {
		if strings.Trim(key+value, alphabet) != "" || key == "" || len(key) > most || len(value) > most {
			return false
		}
	}
	return true
}

// add puts an object into the cloud. The lock is held.
func (s *server) add(kind string, o *object, age time.Duration) {
	s.serial++
	o.ID = fmt.Sprintf("%s-%05d", strings.TrimSuffix(kind, "s"), s.serial)
	o.Created = time.Now().Add(s.shift - age).UTC()
	if kind == "vms" {
		const octet = 250
		o.Address = fmt.Sprintf("10.0.%d.%d", s.serial/octet, s.serial%octet+1)
	}
	s.all[kind] = append(s.all[kind], o)
}

// list answers with a page of what has all labels of the query, beginning after an id.
func (s *server) list(w http.ResponseWriter, r *http.Request, kind string) {
	found, next := []object{}, ""
	for _, o := range s.all[kind] {
		if o.ID <= r.URL.Query().Get("page") || slices.ContainsFunc(r.URL.Query()["label"], func(label string) bool {
			key, want, _ := strings.Cut(label, ":")
			value, has := o.Labels[key]
			return !has || want != "" && value != want
		}) {
			continue
		}
		if len(found) == pageSize {
			next = found[len(found)-1].ID
			break
		}
		found = append(found, s.show(o))
	}
	answer(w, map[string]any{"items": found, "next": next})
}

// show returns what the cloud shows of an object.
func (s *server) show(o *object) object {
	shown := *o
	shown.UserData, shown.Key = nil, ""
	if o.State == "starting" {
		o.State = "running"
	}
	return shown
}

// one shows an object, or deletes it. The disks of a VM outlive it.
func (s *server) one(w http.ResponseWriter, method, kind, id string) {
	i := slices.IndexFunc(s.all[kind], func(o *object) bool { return o.ID == id })
	if i < 0 {
		refuse(w, http.StatusNotFound, "not_found", "there is none")
		return
	}
	o := s.all[kind][i]
	if method == http.MethodDelete {
		s.all[kind] = slices.Delete(s.all[kind], i, i+1)
		for _, disk := range s.all["disks"] {
			if disk.VM == id {
				disk.VM = ""
			}
		}
	}
	answer(w, s.show(o))
}

// locked returns a function of a back end that has the cloud to itself.
func locked(s *server, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *server) set(state string) func(testing.TB, string) {
	return func(_ testing.TB, id string) {
		locked(s, func() {
			for _, vm := range s.all["vms"] {
				if vm.ID == id {
					vm.State = state
				}
			}
		})
	}
}

func (s *server) ledger(testing.TB) (all []cloud.Resource) {
	locked(s, func() {
		for path, kind := range map[string]cloud.Kind{"vms": cloud.KindVM, "disks": cloud.KindDisk} {
			for _, o := range s.all[path] {
				all = append(all, cloud.Resource{
					Kind: kind, ID: o.ID, MachineName: decoded(o.Labels)["machine"], OwnerID: decoded(o.Labels)["owner-id"],
					Attached: o.VM != "", Created: o.Created,
				})
			}
		}
	})
	return all
}

const labelPrefix = "mcm_2ecluster_2ex-k8s_2eio_2f"

// decoded returns the labels of the manager without their prefix, as the owner of the
// cloud reads them.
func decoded(labels map[string]string) map[string]string {
	all := map[string]string{}
	for key, value := range labels {
		all[strings.TrimPrefix(key, labelPrefix)] = strings.NewReplacer("_2e", ".", "_2d", "-").Replace(value)
	}
	return all
}

func (s *server) seed(_ testing.TB, d cloudtest.Seed) string {
	o := &object{Zone: "z1", Type: "small", State: "running", Labels: map[string]string{}, VM: d.AttachTo}
	if !d.Untagged {
		for _, key := range strings.Fields(d.Class.Owner)[1:] { // after the address
			o.Labels[key] = "1"
		}
	}
	if d.Name != "" {
		o.Labels[labelPrefix+"machine"] = strings.ReplaceAll(d.Name, ".", "_2e")
	}
	if d.OwnerID != "" {
		o.Labels[labelPrefix+"owner-id"] = d.OwnerID
	}
	locked(s, func() { s.add(map[cloud.Kind]string{cloud.KindVM: "vms", cloud.KindDisk: "disks"}[d.Kind], o, d.Age) })
	return o.ID
}

func (s *server) userData(_ testing.TB, id string) (data []byte) {
	locked(s, func() {
		for _, vm := range s.all["vms"] {
			if vm.ID == id {
				data = vm.UserData
			}
		}
	})
	return data
}
