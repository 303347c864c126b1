package s3test

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Account is the credentials of somebody who may do everything.
type Account struct {
	Secret string
	Token  string    // of a session; empty for a long-lived key
	Ends   time.Time // of a session
}

// Bucket is what a bucket has beside its objects.
type Bucket struct {
	Owner    string // id of the AWS account
	Versions bool   // that are kept
}

// Settings are what a Store has. Change alters them.
type Settings struct {
	Region   string
	Accounts map[string]Account // by access key id
	Buckets  map[string]Bucket  // by name
	PageSize int                // keys that a listing holds
}

// Object is a version of an object.
type Object struct {
	Bucket, Key, Version string
	Content              []byte
	Tags                 url.Values
	Made                 time.Time
}

// Call is one request.
type Call struct {
	Method, Bucket, Key string
	Code                string // of the error; empty on success
	Presigned           bool
}

// Fault is an error that calls meet.
type Fault struct {
	Method, Code string // an empty method is any
	Status       int
	Times        int // how many calls; 0 is all
}

// Store is S3 in one region. It is safe for concurrent use.
type Store struct {
	now func() time.Time

	mu       sync.Mutex
	settings Settings
	objects  map[string]Object   // by bucket and key
	versions map[string][]Object // that a bucket keeps, also of what was deleted
	serial   int
	calls    []Call
	faults   []*Fault
}

// New returns an empty Store; now nil is time.Now.
func New(s Settings, now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{now: now, settings: s, objects: map[string]Object{}, versions: map[string][]Object{}}
}

// Change alters the settings.
func (s *Store) Change(f func(*Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.settings)
}

// Inject puts a fault to work.
func (s *Store) Inject(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// Heal takes all faults away.
func (s *Store) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// Calls returns what was asked for since the last Forget.
func (s *Store) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Forget empties the record of calls.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}

// Objects returns all objects and kept versions, sorted by key.
func (s *Store) Objects() []Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Collect(maps.Values(s.objects))
	for _, kept := range s.versions {
		all = append(all, kept...)
	}
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(a.Key+" "+a.Version, b.Key+" "+b.Version) })
	return all
}

// Add puts an object into a bucket.
func (s *Store) Add(o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[o.Bucket+"/"+o.Key] = o
}

// Beside returns a handler of requests to S3, by the name of their host, and of all others.
func (s *Store) Beside(others http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOf(r); strings.HasPrefix(host, "s3.") || strings.Contains(host, ".s3.") {
			s.ServeHTTP(w, r)
			return
		}
		others.ServeHTTP(w, r)
	})
}
