package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

// bodyMax is how many bytes a request may have; user data is the bulk of them.
const bodyMax = 1 << 20

// server is the HTTP API over a Cloud.
type server struct {
	cloud *Cloud
	sleep func(ctx context.Context, d time.Duration) // nil: no latency
}

// Handler serves a Cloud over HTTP, as docs/clouds/sim.md says. It applies the
// latencies of the settings with sleep, which returns early when ctx ends; nil
// leaves them out.
func Handler(c *Cloud, sleep func(ctx context.Context, d time.Duration)) http.Handler {
	s := &server{cloud: c, sleep: sleep}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	s.account(mux)
	s.admin(mux)
	return mux
}

// account adds what accounts can call.
func (s *server) account(mux *http.ServeMux) {
	const region = "/v1/regions/{region}"
	route := func(pattern, op string, serve func(Login, *http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, op, serve) })
	}
	route("POST "+region+"/vms", OpCreateVM, s.createVM)
	route("GET "+region+"/vms/{id}", OpGetVM, func(who Login, r *http.Request) (any, error) {
		return s.cloud.GetVM(who, r.PathValue("region"), r.PathValue("id"))
	})
	route("DELETE "+region+"/vms/{id}", OpDeleteVM, func(who Login, r *http.Request) (any, error) {
		return s.cloud.DeleteVM(who, r.PathValue("region"), r.PathValue("id"))
	})
	route("POST "+region+"/vms/{id}/reboot", OpRebootVM, func(who Login, r *http.Request) (any, error) {
		return s.cloud.RebootVM(who, r.PathValue("region"), r.PathValue("id"))
	})
	const member = region + "/vms/{id}/memberships/{balancer}/{port}"
	route("PUT "+member, OpRegisterVM, s.membership(s.cloud.RegisterVM))
	route("DELETE "+member, OpDeregisterVM, s.membership(s.cloud.DeregisterVM))
	route("PUT "+region+"/vms/{id}/forwarding", OpSetForwarding, s.setForwarding)
	route("GET "+region+"/vms/{id}/console", OpGetConsole, func(who Login, r *http.Request) (any, error) {
		return s.cloud.GetConsole(who, r.PathValue("region"), r.PathValue("id"))
	})
	route("POST "+region+"/disks", OpCreateDisk, s.createDisk)
	route("PUT "+region+"/disks/{id}/attachment", OpAttachDisk, s.attachDisk)
	route("DELETE "+region+"/disks/{id}/attachment", OpDetachDisk, func(who Login, r *http.Request) (any, error) {
		return s.cloud.DetachDisk(who, r.PathValue("region"), r.PathValue("id"))
	})
	route("DELETE "+region+"/disks/{id}", OpDeleteDisk, func(who Login, r *http.Request) (any, error) {
		return s.cloud.DeleteDisk(who, r.PathValue("region"), r.PathValue("id"))
	})
	route("POST "+region+"/nics", OpCreateNIC, s.createNIC)
	route("DELETE "+region+"/nics/{id}", OpDeleteNIC, func(who Login, r *http.Request) (any, error) {
		return s.cloud.DeleteNIC(who, r.PathValue("region"), r.PathValue("id"))
	})
	route("PATCH "+region+"/resources/{id}/tags", OpSetTags, s.setTags)
	route("GET "+region+"/resources", OpList, s.list)
	route("GET "+region+"/instance-types/{name}", OpGetInstanceType, func(who Login, r *http.Request) (any, error) {
		return s.cloud.GetInstanceType(who, r.PathValue("region"), r.PathValue("name"))
	})
}

// serve answers one call of an account.
func (s *server) serve(w http.ResponseWriter, r *http.Request, op string, do func(Login, *http.Request) (any, error)) {
	r.Body = http.MaxBytesReader(w, r.Body, bodyMax)
	account, secret, _ := r.BasicAuth()
	s.delay(r.Context(), op)
	out, err := do(Login{account, secret}, r)
	s.delay(r.Context(), op)
	answer(w, r, out, err)
}

// delay lets half of an operation's latency pass.
func (s *server) delay(ctx context.Context, op string) {
	if s.sleep == nil {
		return
	}
	latency := s.cloud.latency(op)
	if latency > 0 {
		s.sleep(ctx, latency/2)
	}
}

// latency is how long an operation takes.
func (c *Cloud) latency(op string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.settings.Latency[op]
	if !ok {
		d = c.settings.Latency["*"]
	}
	return time.Duration(d)
}

// answer writes a result or an error. Where no answer must arrive it breaks the
// connection.
func answer(w http.ResponseWriter, r *http.Request, out any, err error) {
	if err == nil {
		reply(w, http.StatusOK, out)
		return
	}
	e, ok := errors.AsType[*APIError](err)
	if !ok {
		e = refuse(CodeInvalidParameter, "%v", err)
	}
	if e.hang {
		<-r.Context().Done()
	}
	if e.Status == 0 {
		panic(http.ErrAbortHandler)
	}
	if e.RetryAfter > 0 {
		seconds := math.Ceil(time.Duration(e.RetryAfter).Seconds())
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	reply(w, e.Status, map[string]*APIError{"error": e})
}

func reply(w http.ResponseWriter, status int, out any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // the caller has gone
}

// body decodes a request's body. Unknown fields are refused: a client that
// sends one expects it to have an effect.
func body[T any](r *http.Request) (T, error) {
	var in T
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&in); err != nil {
		return in, refuse(CodeInvalidParameter, "the body is not what is expected: %v", err)
	}
	return in, nil
}

func (s *server) createVM(who Login, r *http.Request) (any, error) {
	in, err := body[VMInput](r)
	if err != nil {
		return nil, err
	}
	return s.cloud.CreateVM(who, r.PathValue("region"), in)
}

func (s *server) createDisk(who Login, r *http.Request) (any, error) {
	in, err := body[DiskInput](r)
	if err != nil {
		return nil, err
	}
	return s.cloud.CreateDisk(who, r.PathValue("region"), in)
}

func (s *server) createNIC(who Login, r *http.Request) (any, error) {
	in, err := body[NICInput](r)
	if err != nil {
		return nil, err
	}
	return s.cloud.CreateNIC(who, r.PathValue("region"), in)
}

func (s *server) setForwarding(who Login, r *http.Request) (any, error) {
	in, err := body[struct {
		Enabled bool `json:"enabled"`
	}](r)
	if err != nil {
		return nil, err
	}
	return s.cloud.SetForwarding(who, r.PathValue("region"), r.PathValue("id"), in.Enabled)
}

// membership serves a call about a VM's place in a load balancer.
func (s *server) membership(
	do func(Login, string, string, Membership) (Resource, error),
) func(Login, *http.Request) (any, error) {
	return func(who Login, r *http.Request) (any, error) {
		port, err := strconv.Atoi(r.PathValue("port"))
		if err != nil {
			return nil, refuse(CodeInvalidParameter, "port is %q and has to be a number", r.PathValue("port"))
		}
		m := Membership{LoadBalancer: r.PathValue("balancer"), Port: port}
		return do(who, r.PathValue("region"), r.PathValue("id"), m)
	}
}

func (s *server) attachDisk(who Login, r *http.Request) (any, error) {
	in, err := body[struct {
		VM string `json:"vm"`
	}](r)
	if err != nil {
		return nil, err
	}
	return s.cloud.AttachDisk(who, r.PathValue("region"), r.PathValue("id"), in.VM)
}

func (s *server) setTags(who Login, r *http.Request) (any, error) {
	in, err := body[map[string]*string](r)
	if err != nil {
		return nil, err
	}
	return s.cloud.SetTags(who, r.PathValue("region"), r.PathValue("id"), in)
}

func (s *server) list(who Login, r *http.Request) (any, error) {
	values := r.URL.Query()
	q := Query{
		Kind: values.Get("kind"), Names: values["name"], IDs: values["id"], Tags: values["tag"],
		Next: values.Get("next"),
	}
	if text := values.Get("limit"); text != "" {
		limit, err := strconv.Atoi(text)
		if err != nil || limit < 1 {
			return nil, refuse(CodeInvalidParameter, "limit is %q and has to be a number from 1", text)
		}
		q.Limit = limit
	}
	return s.cloud.List(who, r.PathValue("region"), q)
}

// Transport answers requests from the Cloud itself, without a network, without
// goroutines and without latency.
func (c *Cloud) Transport() http.RoundTripper { return inProcess{Handler(c, nil)} }

// Driver returns a driver that calls this Cloud, whatever the endpoint of a
// class is, in process.
func (c *Cloud) Driver() *Driver { return NewDriver(c.Transport()) }

type inProcess struct{ handler http.Handler }

// errNoAnswer is what a caller sees of an answer that does not arrive.
var errNoAnswer = errors.New("the connection was closed before an answer arrived")

// RoundTrip serves the request. Where no answer must arrive it returns an error
// as a broken connection does.
func (p inProcess) RoundTrip(r *http.Request) (out *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, fmt.Errorf("send request: %w", err)
	}
	defer func() {
		caught := recover()
		if caught == nil {
			return
		}
		if caught != http.ErrAbortHandler { //nolint:errorlint // a value that was thrown, not an error that was returned
			panic(caught)
		}
		out, err = nil, errNoAnswer
		if ended := r.Context().Err(); ended != nil {
			err = fmt.Errorf("wait for the answer: %w", ended)
		}
	}()
	in := r.Clone(r.Context())
	if in.Body == nil {
		in.Body = http.NoBody
	}
	w := &response{header: http.Header{}, status: http.StatusOK}
	p.handler.ServeHTTP(w, in)
	return &http.Response{
		Status: http.StatusText(w.status), StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// response keeps what a handler writes.
type response struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) { w.status = status }

func (w *response) Write(p []byte) (int, error) { return w.body.Write(p) }
