// Package memory is a cloud in memory, served over HTTP, and a driver for it: what
// someone outside of this repository writes for a cloud of their own.
package memory

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// VM is a VM in the cloud, and the request for one.
type VM struct {
	ID, Name, Zone, Type, Token, State string
	Tags                               map[string]string
	UserData                           []byte
	Created                            time.Time
}

// Server is the cloud. Its VMs run at once.
type Server struct {
	key string

	mu      sync.Mutex
	serial  int
	vms     []*VM
	shift   time.Duration // of the clock
	revoked bool
}

// NewServer returns an empty cloud that takes this key.
func NewServer(key string) *Server { return &Server{key: key} }

// ServeHTTP answers one call.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/vms"), "/")
	switch {
	case s.revoked || r.Header.Get("Key") != s.key:
		refuse(w, http.StatusUnauthorized, "BadKey")
	case r.Method == http.MethodPost:
		s.create(w, r)
	case id == "":
		s.list(w, r)
	default:
		s.one(w, r.Method, id)
	}
}

// refuse answers with an error of the cloud.
func refuse(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	answer(w, map[string]string{"code": code})
}

func answer(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

// create makes a VM, or returns the one that was made under the same token.
func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	vm := &VM{}
	if err := json.NewDecoder(r.Body).Decode(vm); err != nil || vm.Type == "" {
		refuse(w, http.StatusBadRequest, "BadRequest")
		return
	}
	for _, old := range s.vms {
		if vm.Token != "" && old.Token == vm.Token {
			answer(w, old)
			return
		}
	}
	s.add(vm, 0)
	answer(w, vm)
}

// add puts vm into the cloud. The lock is held.
func (s *Server) add(vm *VM, age time.Duration) {
	s.serial++
	vm.ID, vm.State = fmt.Sprintf("vm-%04d", s.serial), "running"
	vm.Created = time.Now().Add(s.shift - age).UTC()
	s.vms = append(s.vms, vm)
}

// list answers with the VMs that have the tags and the name in the query.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	found := []*VM{}
	for _, vm := range s.vms {
		matches := true
		for key, want := range r.URL.Query() {
			matches = matches && (vm.Tags[key] == want[0] || key == "name" && vm.Name == want[0])
		}
		if matches {
			found = append(found, vm)
		}
	}
	answer(w, found)
}

// one shows a VM, or deletes it.
func (s *Server) one(w http.ResponseWriter, method, id string) {
	i := slices.IndexFunc(s.vms, func(vm *VM) bool { return vm.ID == id })
	if i < 0 {
		refuse(w, http.StatusNotFound, "NoSuchVM")
		return
	}
	answer(w, s.vms[i])
	if method == http.MethodDelete {
		s.vms = slices.Delete(s.vms, i, i+1)
	}
}

// VMs returns copies of all VMs.
func (s *Server) VMs() []VM {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []VM
	for _, vm := range s.vms {
		all = append(all, *vm)
	}
	return all
}

// Add puts a VM of that age into the cloud and returns its id.
func (s *Server) Add(vm VM, age time.Duration) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(&vm, age)
	return vm.ID
}

// SetState brings a VM into a state.
func (s *Server) SetState(id, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, vm := range s.vms {
		if vm.ID == id {
			vm.State = state
		}
	}
}

// Advance lets time pass.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shift += d
}

// Now is the time in the cloud.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Add(s.shift)
}

// Revoke makes the key invalid.
func (s *Server) Revoke() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revoked = true
}
