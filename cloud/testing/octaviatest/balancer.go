// Package octaviatest is Octavia with one load balancer and its pools, with memory, as far as
// members need it. It refuses what Octavia refuses: changes while another is under way, a
// second member of an address and port, attributes that it does not know, more members than
// the quota.
package octaviatest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// pendingDelete is the provisioning status of a member that gets no requests any more.
const pendingDelete = "PENDING_DELETE"

// Member is a member of a pool.
type Member struct {
	ID      string `json:"id,omitempty"`
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	Port    int32  `json:"protocol_port,omitempty"`
	Subnet  string `json:"subnet_id,omitempty"`
	Status  string `json:"provisioning_status,omitempty"`
}

// Balancer is a load balancer. It is safe for concurrent use.
type Balancer struct {
	mu     sync.Mutex
	pools  map[string][]Member
	busy   int // requests until the last change is carried out
	quota  int // members of a pool; 0 is no limit
	serial int
}

// New returns a load balancer with empty pools.
func New(pools ...string) *Balancer {
	b := &Balancer{pools: map[string][]Member{}}
	for _, pool := range pools {
		b.pools[pool] = nil
	}
	return b
}

// SetQuota limits the members of a pool; 0 is no limit.
func (b *Balancer) SetQuota(members int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quota = members
}

// Put replaces the members of a pool, which is made where it is not there.
func (b *Balancer) Put(pool string, members ...Member) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pools[pool] = members
}

// Drop takes a pool away.
func (b *Balancer) Drop(pool string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pools, pool)
}

// Members returns the members of a pool that get requests.
func (b *Balancer) Members(pool string) []Member {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.pools[pool]), func(m Member) bool { return m.Status == pendingDelete })
}

// ServeHTTP answers requests below /v2.0, as Octavia's API has it.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	status, out := b.Serve(r.Method, strings.TrimPrefix(r.URL.Path, "/v2.0"), body)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_ = json.NewEncoder(w).Encode(out) // the client may have gone
	}
}

func fault(text string) map[string]any {
	return map[string]any{"faultcode": "Client", "faultstring": text, "debuginfo": nil}
}

// Serve answers a request with a status and what becomes its body.
func (b *Balancer) Serve(method, path string, body []byte) (status int, out any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.busy--; b.busy <= 0 {
		for pool, all := range b.pools {
			b.pools[pool] = slices.DeleteFunc(all, func(m Member) bool { return m.Status == pendingDelete })
		}
	}
	rest, ok := strings.CutPrefix(path, "/lbaas/pools/")
	pool, id, _ := strings.Cut(rest, "/members")
	if _, there := b.pools[pool]; !ok || !there {
		return http.StatusNotFound, fault("Pool " + pool + " not found.")
	}
	if method == http.MethodGet {
		return http.StatusOK, map[string]any{"members": b.pools[pool]}
	}
	if b.busy > 0 {
		return http.StatusConflict, fault("Load Balancer x is immutable and cannot be updated.")
	}
	status, out = b.change(method, pool, strings.TrimPrefix(id, "/"), body)
	if status < http.StatusMultipleChoices {
		b.busy = 3
	}
	return status, out
}

func (b *Balancer) change(method, pool, id string, body []byte) (int, any) {
	var in struct{ Member Member }
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if method != http.MethodDelete && d.Decode(&in) != nil {
		return http.StatusBadRequest, fault("Invalid input")
	}
	if method == http.MethodPost {
		return b.add(pool, in.Member)
	}
	all := b.pools[pool]
	at := slices.IndexFunc(all, func(m Member) bool { return m.ID == id })
	switch {
	case at < 0:
		return http.StatusNotFound, fault("Member not found")
	case method == http.MethodPut && (in.Member.Address != "" || in.Member.Port != 0):
		return http.StatusBadRequest, fault("address is immutable")
	case method == http.MethodPut:
		all[at].Name = in.Member.Name
		return http.StatusOK, in
	}
	all[at].Status = pendingDelete
	return http.StatusNoContent, nil
}

func (b *Balancer) add(pool string, m Member) (int, any) {
	all := b.pools[pool]
	samePlace := func(other Member) bool { return other.Address == m.Address && other.Port == m.Port }
	switch {
	case m.ID+m.Status != "" || m.Port < 1:
		return http.StatusBadRequest, fault("Invalid input for field/attribute member")
	case slices.ContainsFunc(all, samePlace):
		return http.StatusConflict, fault("Another member on pool is already using ip and protocol_port")
	case b.quota > 0 && len(all) >= b.quota:
		return http.StatusForbidden, fault("Quota has been met for resources: Member")
	}
	b.serial++
	m.ID, m.Status = fmt.Sprint("member-", b.serial), "PENDING_CREATE"
	b.pools[pool] = append(all, m)
	return http.StatusCreated, map[string]any{"member": m}
}
