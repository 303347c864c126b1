package cloudtest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
)

const (
	boots    = 30 * time.Second // until a new VM runs
	goes     = 10 * time.Second // until a deleted VM is gone
	pageSize = 10
)

// resource is anything in the reference cloud.
type resource struct {
	ID, Kind, Name, VM string // VM is what it is attached to
	Keep               bool   // it stays when VM goes
	Tags               map[string]string
	Created            time.Time

	Word, Host, Type, Zone, Token string // of VMs
	Market                        string // what a VM competes for
	Lacks                         string // what a VM has not got yet
	UserData                      []byte
	Network                       []cloud.Interface
	Ready                         bool   // initialised
	Boots                         int    // after the first
	Console                       string `json:"-"`
	Gone                          time.Time
}

// server is a small cloud with memory, virtual time and sessions.
type server struct {
	mu        sync.Mutex
	now       time.Time
	resources []*resource
	key       string
	project   string
	other     *server // another project; nil for none
	revoked   bool
	sessions  map[string]bool
	serial    int
	pools     map[string][]member // by name
	soldOut   bool
	short     func(t *resource) bool // what there is none of; nil is nothing
	failNext  bool                   // the next interface fails
	late      string                 // what VMs do not get yet
	taken     string                 // a name that no VM may have
	refused   map[string]bool        // tokens whose requests were refused, and are for ever
	hide      time.Duration
	hiding    time.Time // what is younger is hidden
}

func newServer(key string) *server {
	return &server{
		now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), key: key, project: "web", sessions: map[string]bool{},
		pools: map[string][]member{}, refused: map[string]bool{},
	}
}

// fail is the server's form of an error.
func fail(w http.ResponseWriter, status int, word, text string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"code": word, "message": text})
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.other != nil && s.other.serves(r) {
		s.other.ServeHTTP(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/login" {
		s.login(w, r)
		return
	}
	if !s.sessions[r.Header.Get("Session")] {
		fail(w, http.StatusUnauthorized, "SessionExpired", "log in")
		return
	}
	kind, id, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case kind == "types":
		s.types(w, id)
	case kind == "member":
		s.members(w, r, id)
	case strings.HasSuffix(id, "/console"):
		s.console(w, strings.TrimSuffix(id, "/console"))
	case r.Method == http.MethodPost && strings.HasSuffix(id, "/init"):
		s.change(w, strings.TrimSuffix(id, "/init"), func(t *resource) { t.Ready = true })
	case r.Method == http.MethodPost && strings.HasSuffix(id, "/start"):
		s.change(w, strings.TrimSuffix(id, "/start"), func(t *resource) { t.Word, t.Boots = "", t.Boots+1 })
	case r.Method == http.MethodPost && strings.HasSuffix(id, "/reset"):
		s.change(w, strings.TrimSuffix(id, "/reset"), func(t *resource) { t.Boots++ })
	case r.Method == http.MethodPost && strings.HasSuffix(id, "/rebuild"):
		s.change(w, strings.TrimSuffix(id, "/rebuild"), func(t *resource) { t.Word, t.Host, t.Boots = "", "new", t.Boots+1 })
	case r.Method == http.MethodPost:
		s.create(w, r, kind)
	case r.Method == http.MethodPatch:
		tags := map[string]string{}
		_ = json.NewDecoder(r.Body).Decode(&tags)
		s.change(w, id, func(t *resource) { t.Tags = tags })
	case r.Method == http.MethodDelete:
		s.change(w, id, s.remove)
	case id != "":
		s.show(w, id)
	default:
		s.list(w, r, kind)
	}
}

// serves reports whether a request is one of the project.
func (s *server) serves(r *http.Request) bool {
	if r.URL.Path != "/login" {
		return strings.HasPrefix(r.Header.Get("Session"), s.project)
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return strings.Contains(string(body), s.key)
}

func (s *server) login(w http.ResponseWriter, r *http.Request) {
	var in struct{ Key string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	if in.Key != s.key || s.revoked {
		fail(w, http.StatusUnauthorized, "BadKey", "refused")
		return
	}
	s.serial++
	session := fmt.Sprintf("%s-session-%d", s.project, s.serial)
	s.sessions[session] = true
	_ = json.NewEncoder(w).Encode(map[string]string{"session": session})
}

func (s *server) types(w http.ResponseWriter, name string) {
	if name != "small" {
		fail(w, http.StatusBadRequest, "UnknownType", "no type "+name)
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]string{"cpu": "2", "memory": "4Gi"})
}

func (s *server) create(w http.ResponseWriter, r *http.Request, kind string) {
	t := &resource{}
	if err := json.NewDecoder(r.Body).Decode(t); err != nil {
		fail(w, http.StatusBadRequest, "BadBody", "cannot decode")
		return
	}
	for _, old := range s.resources {
		same := kind == "vm" && t.Token != "" && old.Token == t.Token
		if same || kind == "interface" && old.Kind == kind && old.Name == t.Name {
			_ = json.NewEncoder(w).Encode(old)
			return
		}
	}
	if kind == "vm" && s.short != nil && s.short(t) {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]any{"code": "NoCapacity", "of": cloud.Offering{
			Region: "r1", Zone: t.Zone, InstanceType: t.Type, CapacityType: t.Market,
		}})
		return
	}
	if kind == "vm" && s.taken != "" && t.Tags["name"] == s.taken {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(map[string]any{"code": "NameTaken", "name": s.taken})
		return
	}
	if kind == "interface" && s.failNext {
		t.Word, s.failNext = "FAILED", false
	}
	if kind == "vm" && (s.soldOut || s.refused[t.Token]) {
		s.refused[t.Token] = true
		fail(w, http.StatusConflict, "NoCapacity", "no capacity")
		return
	}
	nic := t.VM // an interface to attach
	t.Kind, t.VM = kind, ""
	s.add(t, 0)
	if kind == "vm" {
		s.add(&resource{Kind: "disk", VM: t.ID, Keep: t.Keep, Tags: diskTags(t)}, 0)
		if n := s.find(nic); n != nil {
			n.VM = t.ID
		}
	}
	_ = json.NewEncoder(w).Encode(t)
}

// add puts t into the cloud, age old. The lock is held.
func (s *server) add(t *resource, age time.Duration) {
	s.serial++
	t.ID, t.Created = fmt.Sprintf("%s-%04d", t.Kind, s.serial), s.now.Add(-age)
	if t.Kind == "vm" {
		t.Host = "host-" + t.ID
	}
	s.resources = append(s.resources, t)
}

func (s *server) find(id string) *resource {
	s.settle()
	for _, t := range s.resources {
		if t.ID == id {
			return t
		}
	}
	return nil
}

// settle lets VMs go whose time has come, with what is attached.
func (s *server) settle() {
	gone := map[string]bool{}
	for _, t := range s.resources {
		if !t.Gone.IsZero() && !s.now.Before(t.Gone) {
			gone[t.ID] = true
		}
	}
	s.resources = slices.DeleteFunc(s.resources, func(t *resource) bool {
		if gone[t.VM] && (t.Keep || t.Kind == "interface") {
			t.VM = ""
		}
		return gone[t.ID] || gone[t.VM]
	})
}

// sellOut lets there be no VM of which f is true.
func (s *server) sellOut(f func(t *resource) bool) func(testing.TB) func() {
	return func(testing.TB) func() {
		s.locked(func() { s.short = f })
		return func() { s.locked(func() { s.short = nil }) }
	}
}

// scarce is what the cloud runs out of.
func (s *server) scarce() map[string]cloudtest.Scarcity {
	of := func(market string) func(testing.TB) func() {
		return s.sellOut(func(t *resource) bool { return t.Market == market })
	}
	spot := class(map[string]any{"spot": true})
	return map[string]cloudtest.Scarcity{
		"Spot":    {Class: spot, Free: class(nil), SellOut: of("spot")},
		"Regular": {Class: class(nil), Free: spot, SellOut: of("regular")},
		"Zone": {
			Class: class(nil), Zone: "z1", Free: class(nil), FreeZone: "z2",
			SellOut: s.sellOut(func(t *resource) bool { return t.Zone == "z1" }),
		},
		"Group": {Class: class(map[string]any{"group": "g"}), Free: class(nil), SellOut: of("group g")},
		"Accelerators": {
			Class: class(map[string]any{"gpus": 4}), Free: class(map[string]any{"gpus": 1}), SellOut: of("4 GPUs"),
		},
	}
}

// occupy gives a name to somebody else's VM.
func (s *server) occupy(t testing.TB, name string) (free func()) {
	id := s.seed(t, cloudtest.Seed{Kind: cloud.KindVM, Untagged: true})
	s.locked(func() { s.taken = name })
	return func() {
		s.locked(func() {
			s.taken = ""
			s.find(id).Gone = s.now
		})
	}
}

// without keeps a part from VMs.
func (s *server) without(part string) func(testing.TB) func() {
	return func(testing.TB) func() {
		s.locked(func() { s.late = part })
		return func() { s.locked(func() { s.late = "" }) }
	}
}

func (s *server) remove(t *resource) {
	switch {
	case t.Kind != "vm":
		t.Gone = s.now
	case t.Gone.IsZero():
		t.Gone = s.now.Add(goes)
	}
}

func (s *server) change(w http.ResponseWriter, id string, f func(t *resource)) {
	t := s.find(id)
	if t == nil {
		fail(w, http.StatusNotFound, "NoSuchThing", id)
		return
	}
	f(t)
	s.settle()
	_ = json.NewEncoder(w).Encode(s.shown(t))
}

func (s *server) hidden(t *resource) bool {
	return s.hide > 0 && !t.Created.Before(s.hiding) && s.now.Sub(t.Created) < s.hide
}

// shown is t as it is now.
func (s *server) shown(t *resource) resource {
	c := *t
	if c.Kind == "vm" && c.Word == "" {
		c.Word = "RUNNING"
		if s.now.Sub(c.Created) < boots || s.late != "" {
			c.Word, c.Lacks = "BUILDING", s.late
		}
	}
	if !c.Gone.IsZero() {
		c.Word = "DELETING"
	}
	return c
}

func (s *server) show(w http.ResponseWriter, id string) {
	t := s.find(id)
	if t == nil || s.hidden(t) {
		fail(w, http.StatusNotFound, "NoSuchThing", id)
		return
	}
	_ = json.NewEncoder(w).Encode(s.shown(t))
}

func (s *server) console(w http.ResponseWriter, id string) {
	t := s.find(id)
	if t == nil {
		fail(w, http.StatusNotFound, "NoSuchThing", id)
		return
	}
	_ = json.NewEncoder(w).Encode(t.Console)
}

// list answers with a page of what has the tags in the query, after the id in
// the query.
func (s *server) list(w http.ResponseWriter, r *http.Request, kind string) {
	s.settle()
	q := r.URL.Query()
	var page struct {
		Items []resource
		Next  string
	}
	for _, t := range s.resources {
		match := t.Kind == kind && t.ID > q.Get("after") && !s.hidden(t)
		for _, tag := range []string{"cluster", "role", "name", "owner"} {
			if want := q.Get(tag); want != "" && t.Tags[tag] != want {
				match = false
			}
		}
		if match {
			page.Items = append(page.Items, s.shown(t))
		}
	}
	slices.SortFunc(page.Items, func(a, b resource) int { return strings.Compare(a.ID, b.ID) })
	if limit, _ := strconv.Atoi(q.Get("limit")); limit == 0 && len(page.Items) > pageSize {
		page.Items = page.Items[:pageSize]
		page.Next = page.Items[pageSize-1].ID
	}
	_ = json.NewEncoder(w).Encode(page)
}

// locked runs f with the lock held.
func (s *server) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle()
	f()
}

func (s *server) set(word string) func(t testing.TB, id string) {
	return func(_ testing.TB, id string) { s.locked(func() { s.find(id).Word = word }) }
}

func (s *server) ledger(testing.TB) (all []cloud.Resource) {
	s.locked(func() {
		for _, t := range s.resources {
			all = append(all, cloud.Resource{
				Kind: cloud.Kind(t.Kind), ID: t.ID, MachineName: t.Tags["name"],
				OwnerID: t.Tags["owner"], Tags: t.Tags,
			})
		}
	})
	return all
}

func (s *server) seed(_ testing.TB, d cloudtest.Seed) (id string) {
	t := &resource{
		Kind: string(d.Kind), VM: d.AttachTo, Keep: d.AttachTo != "", Type: "small", Tags: map[string]string{},
		Ready: true,
	}
	if !d.Untagged {
		sp := d.Class.Spec.(spec)
		t.Tags["cluster"], t.Tags["role"] = sp.Tags["cluster"], sp.Tags["role"]
	}
	if d.Name != "" {
		t.Tags["name"] = d.Name
	}
	if d.OwnerID != "" {
		t.Tags["owner"] = d.OwnerID
	}
	if d.Kind == cloud.KindDisk && d.AttachTo == "" && !d.Untagged {
		t.Tags[cloud.OnTerminationTag] = string(cloud.RetentionDelete)
	}
	s.locked(func() { s.add(t, d.Age) })
	return t.ID
}

// backend is the server as its owner sees it.
func (s *server) backend(p *cloudtest.Proxy) cloudtest.Backend {
	return cloudtest.Backend{
		Proxy: p, Ledger: s.ledger, Seed: s.seed, PageSize: pageSize, Undecide: s.undecide,
		Advance: func(_ testing.TB, d time.Duration) { s.locked(func() { s.now = s.now.Add(d) }) },
		Hide: func(_ testing.TB, d time.Duration) {
			s.locked(func() { s.hide, s.hiding = d, s.now })
		},
		SellOut: func(testing.TB) func() {
			s.locked(func() { s.soldOut = true })
			return func() { s.locked(func() { s.soldOut = false }) }
		},
		FailPart: func(testing.TB) { s.locked(func() { s.failNext = true }) },
		Occupy:   s.occupy,
		Late: map[string]func(testing.TB) func(){
			"Network": s.without("network"), "Disk": s.without("disk"), "Import": s.without("import"),
		},
		UserData: func(_ testing.TB, id string) (data []byte) {
			s.locked(func() { data = s.find(id).UserData })
			return data
		},
		Network: func(_ testing.TB, id string) (network []cloud.Interface) {
			s.locked(func() { network = s.find(id).Network })
			return network
		},
		States: []cloudtest.VMState{
			{Name: "STOPPED", Set: s.set("STOPPED"), Want: cloud.StateStopped},
			{Name: "ERROR", Set: s.set("ERROR"), Want: cloud.StateFailed},
			{Name: "TERMINATED", Set: s.set("TERMINATED"), Want: cloud.StateUnknown},
		},
		Boot: func(_ testing.TB, id string) (boot string) {
			s.locked(func() { boot = strconv.Itoa(s.find(id).Boots) })
			return boot
		},
		Console: func(_ testing.TB, id, text string) (all string) {
			s.locked(func() {
				t := s.find(id)
				t.Console += text
				all = t.Console
			})
			return all
		},
		Members:      s.membersAt,
		Fail:         s.set("ERROR"),
		HideNodeName: func(_ testing.TB, id string) { s.locked(func() { s.find(id).Host = "" }) },
		Expire:       func(testing.TB) { s.locked(func() { s.sessions = map[string]bool{} }) },
		Revoke: func(testing.TB) {
			s.locked(func() { s.sessions, s.revoked = map[string]bool{}, true })
		},
	}
}
