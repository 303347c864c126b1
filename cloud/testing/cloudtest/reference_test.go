package cloudtest_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/testing/cloudtest"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

const (
	key      = "s3cret/key+of=reference"
	otherKey = "an0ther-key-of-the-reference"
	at       = "http://reference.example"
)

// class is the class with that spec, and these fields changed.
func class(change map[string]any) cloud.ClassInput {
	fields := map[string]any{
		"url": at, "region": "r1", "zone": "z1", "type": "small", "image": "debian",
		"tags": map[string]string{"cluster": "c", "role": "node"},
	}
	maps.Copy(fields, change)
	spec, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return cloud.ClassInput{Name: "class", Namespace: "ns", Spec: spec}
}

// harness is that of the reference driver with a bug, which may be none. It
// calls its cloud without sockets, or through a listening proxy.
func harness(bug string, listen bool) cloudtest.Harness {
	return cloudtest.Harness{
		New: func(t testing.TB) *cloudtest.Fixture {
			s := newServer(key)
			s.other = newServer(otherKey)
			s.other.project = "other"
			p := cloudtest.NewProxy(cloudtest.HandlerTransport(s), func(r *http.Request, _ []byte) cloudtest.Call {
				login := r.URL.Path == "/login"
				return cloudtest.Call{Op: r.Method + " " + r.URL.Path, Login: login, Mutates: r.Method != http.MethodGet && !login}
			})
			transport := http.RoundTripper(p)
			if listen {
				transport = redirect{p.Serve(t, &url.URL{Scheme: "http", Host: "reference.example"})}
			}
			return &cloudtest.Fixture{
				Driver: func() cloud.Driver { return driver{transport, bug} },
				Class:  class(nil),
				Others: map[string]cloud.ClassInput{
					"other cluster": class(map[string]any{"tags": map[string]string{"cluster": "d", "role": "node"}}),
					"other role":    class(map[string]any{"tags": map[string]string{"cluster": "c", "role": "gateway"}}),
				},
				Elsewhere:     class(map[string]any{"type": "large"}),
				Memory:        wrap.Offerings(0, wrap.Clock{}),
				Scarce:        s.scarce(),
				Interruptible: map[string]cloud.ClassInput{"spot": class(map[string]any{"spot": true})},
				Tagged: class(map[string]any{"tags": map[string]string{
					"cluster": "c", "role": "node", "team": "a", "stage": "test",
				}}),
				Retagged: class(map[string]any{"tags": map[string]string{
					"cluster": "c", "role": "node", "team": "b", "cost": "7",
				}}),
				Keeping:       class(map[string]any{"keep": true}),
				Balanced:      class(map[string]any{"pools": pools()}),
				NoPlace:       "none",
				ManyAddresses: class(map[string]any{"nics": 2}),
				Broken:        class(map[string]any{"image": ""}),
				UnknownType:   class(map[string]any{"type": "huge"}),
				Credentials:   cloud.Credentials{"key": []byte(key), "userData": []byte("#cloud-config")},
				Another:       cloudtest.Another{Scopes: wrap.Scopes(), Credentials: cloud.Credentials{"key": []byte(otherKey)}},
				Backend:       s.backend(p),
			}
		},
		Samples: []cloudtest.Sample{{Name: "plain", Class: class(nil), Defaulted: class(map[string]any{"nics": 1}).Spec}},
		Rules: []cloudtest.Rule{
			{
				Name: "image", Reason: "A VM needs one.", Class: class(map[string]any{"image": ""}), Field: "providerSpec.image",
				Severity: cloud.BlocksCreate,
			},
			{Name: "nics", Reason: "Any number.", Class: class(map[string]any{"nics": 4})},
		},
		Secrets: []cloudtest.Secret{
			{Name: "alias", Reason: "Both spellings exist.", Credentials: func(v cloud.Credentials) cloud.Credentials {
				return cloud.Credentials{"apiKey": append(v["key"], '\n')}
			}},
			{Name: "none", Reason: "Without a key nothing works.", Credentials: func(cloud.Credentials) cloud.Credentials {
				return nil
			}, Missing: "key"},
		},
		Golden: &cloudtest.Golden{
			File: "testdata/reference.golden", Class: func(*cloudtest.Fixture) cloud.ClassInput {
				return class(map[string]any{"nics": 2})
			},
			Normalize: func(c cloudtest.Call) string {
				if c.Op != "POST /vm" {
					return ""
				}
				body, _, _ := strings.Cut(strings.ReplaceAll(string(c.Body), `,"Created"`, "\n"), "\n")
				name := strings.Index(body, `"Name"`)
				return c.Op + " " + body[name:strings.Index(body, `"VM"`)] + body[strings.Index(body, `"Tags"`):]
			},
		},
		SparseFile: "testdata/reference-sparse.golden",
		ProviderIDs: []cloudtest.ProviderID{
			{Form: "MCM", Value: "reference:///r1/vm-1", ID: "vm-1"},
			{Form: "node", Value: "reference:///z1/vm-1", ID: "vm-1"},
		},
		ProviderID: func(vm cloud.VM, c cloud.Class) (mcm, node string) {
			return fmt.Sprintf("reference:///%s/%s", c.Region, vm.ID), fmt.Sprintf("reference:///%s/%s", c.Zone, vm.ID)
		},
		NodeName: func(vm cloud.VM) string { return "host-" + vm.ID },
		Errors:   errorRows(),
		Volumes: []cloudtest.Volume{
			{Name: "own", Volume: cloud.Volume{Driver: "csi.reference.example", Handle: "d-1"}, ID: "d-1"},
		},
		Capacity: cloud.Capacity{Resources: map[string]string{"cpu": "2", "memory": "4Gi"}, Architecture: "amd64"},
	}
}

// errorRows are the answers of the reference cloud.
func errorRows() []cloudtest.ErrorRow {
	return []cloudtest.ErrorRow{
		{
			Name: "throttled", Op: "create", Reply: cloudtest.Reply{Status: 429, Header: map[string]string{"Retry-After": "7"}},
			Code: cloud.Throttled, After: 7 * time.Second,
		},
		{Name: "failing", Op: "list", Reply: cloudtest.Reply{Status: 503}, Code: cloud.Unavailable},
		{
			Name: "refused", Op: "get", Reply: cloudtest.Reply{Status: 401, Body: `{"code":"BadKey"}`}, Code: cloud.Denied,
			Reason: "BadKey",
		},
		{
			Name: "bad", Op: "create", Reply: cloudtest.Reply{Status: 400, Body: `{"code":"BadImage"}`}, Code: cloud.Invalid,
			Reason: "BadImage",
		},
		{
			Name: "full", Op: "create", Reply: cloudtest.Reply{Status: 409, Body: `{"code":"NoCapacity"}`},
			Code: cloud.Exhausted,
			Of:   &cloud.Offering{Region: "r1", Zone: "z1", InstanceType: "small"},
		},
	}
}

// redirect sends all requests to another server, over connections of its own.
type redirect struct{ to string }

func (d redirect) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(d.to)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Host = to.Host
	return http.DefaultTransport.RoundTrip(r)
}

// TestReference is the kit on the reference driver: everything is kept. It also
// runs with one of the bugs, for TestTeeth.
func TestReference(t *testing.T) {
	t.Parallel()
	h := harness(os.Getenv("CLOUDTEST_BUG"), false)
	if os.Getenv("CLOUDTEST_BUG") != "" {
		h.Prompt = time.Second // for bugs that wait
	}
	row := cloudtest.Run(t, h)
	for id, cell := range row.Cells {
		if len(cell.Holes) > 0 {
			t.Errorf("%s: the reference cloud has holes: %v", id, cell.Holes)
		}
	}
}

// TestReferenceThroughListener is the same through sockets, several cases at once.
func TestReferenceThroughListener(t *testing.T) {
	t.Parallel()
	h := harness("", true)
	h.Parallel, h.Concurrent = 50, 4
	cloudtest.Run(t, h)
}

// TestReferenceWrapped is the same on an account as cmd wraps it: the
// decorators keep the contract, and they keep the secrets of drivers that do
// not.
func TestReferenceWrapped(t *testing.T) {
	t.Parallel()
	for _, bug := range []string{"", "secretInError", "echoesAnswers"} {
		t.Run("bug="+bug, func(t *testing.T) {
			h := harness(bug, false)
			h.Lacks = map[string]string{"C15/Break": "a shared listing is read whole"}
			bare := h.New
			h.New = func(t testing.TB) *cloudtest.Fixture {
				f := bare(t)
				now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				var mu sync.Mutex
				advance := f.Backend.Advance
				f.Backend.Advance = func(t testing.TB, d time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					now = now.Add(d)
					advance(t, d)
				}
				f.Wrap = wrap.Standard(wrap.Options{
					Now:     func() time.Time { mu.Lock(); defer mu.Unlock(); return now },
					Listing: -1, // listings of the past are no bug here
					Rate:    wrap.Rate{PerSecond: 1e4, Burst: 1e4},
				})
				return f
			}
			cloudtest.Run(t, h)
		})
	}
}

// TestTeeth switches one rule off at a time and sees that the case notices.
func TestTeeth(t *testing.T) {
	t.Parallel()
	if os.Getenv("CLOUDTEST_BUG") != "" {
		t.Skip("this is the process with the bug")
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range bugs() {
		if testing.Short() && i%5 > 0 {
			continue // each is a process
		}
		t.Run(x.caught+"_"+x.bug, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestReference$/^"+x.caught+"_", "-test.timeout=60s",
				"-test.failfast")
			cmd.Env = append(os.Environ(), "CLOUDTEST_BUG="+x.bug, "CLOUDTEST_MATRIX=", "CLOUDTEST_UPDATE=")
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestReference/"+x.caught+"_") {
				t.Errorf("%s passes with the bug %s: %v\n%s", x.caught, x.bug, err, out)
			}
			if x.says != "" && !strings.Contains(string(out), x.says) {
				t.Errorf("%s with the bug %s does not say %q:\n%s", x.caught, x.bug, x.says, out)
			}
		})
	}
}

type bug struct{ bug, caught, says string }

// bugs are what drivers do wrong, each with the case that has to notice.
func bugs() []bug {
	return []bug{
		{"acceptsJunk", "C01", "Parse accepts"},
		{"rejectsUnknownFields", "C01", "unknown field"},
		{"mindsKeyCase", "C01", "case of keys"},
		{"otherDefault", "C01", "defaults are not MCM's"},
		{"acceptsAnything", "C02", "rule image"},
		{"rejectsMore", "C02", "rule nics"},
		{"needsUserData", "C03", "need no userData"},
		{"knowsOneSpelling", "C03", "secret alias"},
		{"declaresOneSpelling", "C03", "entry apiKey is in 0 groups"},
		{"waits", "C04", "no call waits"},
		{"leavesInterfaces", "C04", "left behind: interface"},
		{"doneTooEarly", "C04", "want NotFound"},
		{"changesTags", "C04", "changes its arguments"},
		{"forgetsImage", "C05", "asked for something else"},
		{"ignoresToken", "C06", "VMs, want 1"},
		{"tokenInMemory", "C07", "VMs, want 1"},
		{"readsAnyConsole", "C39", "console of the VM of another owner"},
		{"readsRaw", "C39", "want what ConsoleTail returns"},
		{"readsBeginning", "C39", "the end of the console: not in time"},
		{"looksUpOnly", "C07", "VMs, want 1"},
		{"needsVMToDelete", "C07", "left behind"},
		{"ignoresCheckpoint", "C07", "after checkpoint 1 failed"},
		{"repeatsLost", "C07", "sent a request again"},
		{"needsVMToDelete", "C08", "left behind"},
		{"repeatsLost", "C08", "sent a request again"},
		{"missesTheMissing", "C09", "none of its codes"},
		{"swallowsErrors", "C10", "finished although"},
		{"ownsEverything", "C11", ""},
		{"ignoresOwnerID", "C11", "takes a foreign VM for ours"},
		{"matchesPrefix", "C11", ""},
		{"needsOwnerID", "C12", "VM of MCM's"},
		{"knowsOneForm", "C13", "decode"},
		{"failsWithoutNodeName", "C14", "without a node name"},
		{"forgetsPages", "C15", "list misses"},
		{"swallowsPageErrors", "C15", "without an error"},
		{"looksUpOnly", "C16", "VMs, want 1"},
		{"knowsNoCodes", "C17", "want Throttled"},
		{"retriesThrottled", "C18", "at most"},
		{"neverLogsInAgain", "C19", "after the session ended"},
		{"loginStorm", "C19", "logins, want 1"},
		{"loginLoop", "C19", "logins, want 1"},
		{"keepsCredentials", "C19", ""},
		{"ignoresContext", "C20", "context.Canceled"},
		{"trimsUserData", "C21", "bytes"},
		{"encodesUserData", "C21", "bytes"},
		{"sendsAnySize", "C21", "want Invalid"},
		{"stoppedRuns", "C22", "want stopped"},
		{"takesTheFirst", "C23", "code Unknown"},
		{"shufflesAddresses", "C24", "addresses change"},
		{"takesAnyVolume", "C25", "foreign"},
		{"deletesAllDisks", "C26", "did not make"},
		{"guessesCapacity", "C27", "want Invalid"},
		{"listsVMsOnly", "C28", "list misses"},
		{"secretInError", "C29", "shows a secret"},
		{"echoesAnswers", "C29", "shows a secret"},
		{"leaksGoroutine", "C30", "goroutines"},
		{"closesOnce", "C30", "close"},
		{"readsOn", "C15", "a whole one"},
		{"listsAllKinds", "C15", "a listing of vm yields"},
		{"namesNoOffering", "C32", "with the offering"},
		{"hidesSpot", "C33", "is not interruptible"},
		{"scansAll", "C34", "VMs of others"},
		{"tagsVMsOnly", "C36", "has the tags"},
		{"removesOthersTags", "C36", "none obsolete"},
		{"keepsObsoleteTags", "C36", "all keys obsolete"},
		{"removesOwnership", "C36", ""},
		{"rebootsAnyOwner", "C37", "the VM of another owner"},
		{"resetsOnly", "C37", "runs: not in time"},
		{"rebuilds", "C37", "the VM was"},
		{"registersAnyOwner", "C38", "register the VM of another owner"},
		{"registersNowhere", "C38", "want Invalid"},
		{"deregistersAnyOwner", "C38", "registered before: the VM"},
		{"needsVMToDeregister", "C38", "gone: the VM"},
		{"leavesOnePlace", "C38", "deregistered: the VM"},
		{"drainsNothing", "C38", "deregistered: the VM"},
		{"looksUpOnly", "C31", "VMs, want 1"},
		{"tokenInMemory", "C31", "VMs, want 1"},
		{"forgetsNetwork", "C35", "the VM has the interfaces"},
		{"takesAnyDevice", "C35", "want Invalid"},
		{"takesAnyName", "C40", "want Invalid"},
		{"hidesStickyKeys", "C41", "after capacity has returned"},
		{"asksTheClass", "C42", "left of the VM"},
		{"takesTheUndecided", "C42", "left of the VM"},
		{"keepsForEver", "C28", "left behind"},
		{"forgetsTheOlder", "C42", "has the retention"},
		{"recordsNothing", "C42", "is still listed"},
		{"namesNoScope", "C43", "names no scope"},
		{"namesOneScope", "C43", "two accounts have the scope"},
		{"waitsForTheFailed", "C44", "in some attempt: not in time"},
		{"namesNoName", "C44", "want an error that names"},
		{"finishesEarly", "C45", "want a wait"},
		{"forgetsScope", "C46", "another kind of capacity"},
		{"scansAll", "C47", "VMs of others"},
		{"forgetsImage", "C48", "asked for something else"},
		{"refusesForEver", "C49", "in some attempt: not in time"},
	}
}
