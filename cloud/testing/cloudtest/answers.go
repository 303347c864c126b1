package cloudtest

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// errorTable is C17: what the cloud answers, and what comes of it.
func errorTable(k *kit) {
	k.needs(len(k.h.Errors) > 0, "Harness.Errors")
	for _, code := range []cloud.Code{cloud.Denied, cloud.Exhausted, cloud.Throttled, cloud.Unavailable, cloud.Invalid} {
		k.part("Has"+code.String(), func(k *kit) {
			k.needs(slices.ContainsFunc(k.h.Errors, func(r ErrorRow) bool {
				return r.Code == code
			}), "a row of Harness.Errors of code "+code.String())
		})
	}
	for _, row := range k.h.Errors {
		k.part(strings.ReplaceAll(row.Name, "/", "_"), func(k *kit) { k.meets(row) })
	}
	k.part("Transport", func(k *kit) {
		for _, kind := range []FaultKind{DropRequest, DropResponse, Reset, Truncate} {
			err := k.provoke("get", Fault{Kind: kind, Match: notLogin, Times: Forever})
			if cloud.CodeOf(err) != cloud.Unavailable {
				k.Errorf("get with the fault %v: got %v, want Unavailable", kind, err)
			}
		}
	})
}

// meets tries one row of the error table.
func (k *kit) meets(row ErrorRow) {
	k.Helper()
	match := row.Match
	if match == nil {
		match = notLogin
		if row.Op == "create" || row.Op == "delete" {
			match = Mutating
		}
	}
	err := k.provoke(row.Op, Fault{Kind: Answer, Match: match, Times: Forever, Reply: row.Reply})
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		k.Errorf("%s: got %v, want an error of code %v", row.Op, err, row.Code)
		return
	}
	if e.Code != row.Code || e.Reason == "" || row.Reason != "" && e.Reason != row.Reason {
		k.Errorf("%s: got %v, reason %q (%v), want %v, reason %q", row.Op, e.Code, e.Reason, err, row.Code, row.Reason)
	}
	if row.After > 0 && e.RetryAfter != row.After {
		k.Errorf("%s: got RetryAfter %v, want %v", row.Op, e.RetryAfter, row.After)
	}
	if (row.Of == nil) != (e.Offering == nil) || row.Of != nil && *row.Of != *e.Offering {
		k.Errorf("%s: got Offering %+v, want %+v", row.Op, e.Offering, row.Of)
	}
}

// provoke calls op on a cloud of its own while the fault is at work and returns
// the error.
func (k *kit) provoke(op string, f Fault) error {
	k.Helper()
	k.renew()
	m, a := k.machine(), k.account()
	if op == "get" || op == "delete" {
		m.create(a)
	}
	a = k.account()
	fault := k.proxy.Inject(f)
	err := k.call(op, a, m)
	k.fires(fault)
	return err
}

// call makes the call of that name once, or Create until it fails or is finished.
func (k *kit) call(op string, a cloud.Account, m *machine) (err error) {
	k.Helper()
	switch op {
	case "create":
		_, err = m.attempt(a)
	case "get":
		_, err = a.Get(k.Context(), m.now())
	case "delete":
		_, err = a.Delete(k.Context(), m.now())
	case "list":
		for _, err = range a.List(k.Context(), k.class) {
		}
	case "capacity":
		_, err = a.Capacity(k.Context(), k.class)
	default:
		k.Fatalf("no such call: %q", op)
	}
	return err
}

// throttled returns the cloud's answer to too many calls.
func (k *kit) throttled() ErrorRow {
	k.Helper()
	i := slices.IndexFunc(k.h.Errors, func(r ErrorRow) bool { return r.Code == cloud.Throttled })
	k.needs(i >= 0, "a row of Harness.Errors of code Throttled")
	return k.h.Errors[i]
}

// storm is C18: a throttled driver slows down instead of retrying at once.
func storm(k *kit) {
	const most, tries = 20, 4
	callers, row := min(most, k.h.Parallel), k.throttled()
	before, a := k.ledger(), k.account()
	var machines []*machine
	for range callers {
		machines = append(machines, k.machine())
	}
	fault := k.proxy.Inject(Fault{Kind: Answer, Match: notLogin, Times: Forever, Reply: row.Reply})
	k.proxy.Forget()
	var wg sync.WaitGroup
	for _, m := range machines {
		wg.Go(func() {
			_, err := a.Create(k.Context(), m.request())
			e, _ := errors.AsType[*cloud.Error](err)
			if e == nil || e.Code != cloud.Throttled || e.RetryAfter+time.Second < row.After {
				k.Errorf("create while the cloud throttles: got %v, want Throttled and RetryAfter of at least %v", err, row.After)
			}
		})
	}
	wg.Wait()
	k.fires(fault)
	if n := count(k.proxy.Calls(), notLogin); n > callers*tries {
		k.Errorf("%d throttled creates make %d calls, want at most %d", callers, n, callers*tries)
	}
	for _, m := range machines {
		m.create(a)
		m.only()
	}
	for _, m := range machines {
		m.delete(a)
	}
	k.same(before)
}

// logins returns how many calls opened a session.
func (k *kit) logins() int {
	return count(k.proxy.Calls(), isLogin)
}

// isLogin matches the calls that open a session.
func isLogin(c Call) bool { return c.Login }

// notLogin matches all others.
func notLogin(c Call) bool { return !c.Login }

// sessions is C19: a session that ends is opened again, once; credentials that
// are refused are not tried in a loop.
func sessions(k *kit) {
	k.part("Expired", func(k *kit) {
		k.needs(k.f.Backend.Expire != nil, "Backend.Expire")
		m, a := k.machine(), k.account()
		m.running(a)
		k.f.Backend.Expire(k.T)
		k.proxy.Forget()
		slow := k.proxy.Inject(Fault{Kind: Delay, Match: isLogin, Times: Forever, Delay: 50 * time.Millisecond})
		defer slow.Undo()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := a.Get(k.Context(), m.now()); err != nil {
					k.Errorf("get after the session ended: %v", err)
				}
			})
		}
		wg.Wait()
		if n := k.logins(); n != 1 {
			k.Errorf("8 calls after the session ended make %d logins, want 1", n)
		}
		m.delete(a)
	})
	k.part("MidFlow", func(k *kit) {
		k.needs(k.f.Backend.Expire != nil, "Backend.Expire")
		before, m, a := k.ledger(), k.machine(), k.account()
		fault := k.proxy.Inject(Fault{Kind: Delay, Match: Mutating, Met: func(Call) { k.f.Backend.Expire(k.T) }})
		_, err := a.Create(k.Context(), m.request())
		k.fires(fault)
		if err != nil {
			k.Errorf("create while the session ends: %v", err)
		}
		m.create(a)
		m.only()
		m.delete(a)
		k.same(before)
	})
	k.part("Revoked", revoked)
}

// revoked takes the credentials back.
func revoked(k *kit) {
	k.needs(k.f.Backend.Revoke != nil, "Backend.Revoke")
	k.renew()
	m, a := k.machine(), k.account()
	m.running(a)
	k.f.Backend.Revoke(k.T)
	k.proxy.Forget()
	const calls = 5
	for range calls {
		if _, err := a.Get(k.Context(), m.now()); cloud.CodeOf(err) != cloud.Denied {
			k.Errorf("get with revoked credentials: got %v, want Denied", err)
		}
	}
	if n := len(k.proxy.Calls()); n > 3*calls {
		k.Errorf("%d calls with revoked credentials make %d requests, want at most %d", calls, n, 3*calls)
	}
	b, err := k.open(k.f.Credentials)
	if err == nil {
		_, err = b.Get(k.Context(), m.now())
	}
	if cloud.CodeOf(err) != cloud.Denied {
		k.Errorf("open with revoked credentials: got %v, want Denied", err)
	}
}

// noSecrets is C29: secrets do not come out, even when the cloud echoes them.
func noSecrets(k *kit) {
	var out syncBuffer
	defer capture(&out)()
	k.part("Echo", func(k *kit) {
		for _, status := range []int{400, 401, 403, 409, 422, 429, 500, 503} {
			for _, op := range []string{"create", "get", "delete", "list", "capacity"} {
				k.echo(op, status)
			}
		}
	})
	k.part("Quoted", func(k *kit) {
		told := map[string]bool{}
		for _, row := range k.h.Errors {
			if !told[row.Op] && message.MatchString(row.Reply.Body) {
				told[row.Op] = true
				k.quoted(row)
			}
		}
	})
	k.part("Faults", func(k *kit) {
		for _, kind := range []FaultKind{DropRequest, DropResponse, Reset, Truncate} {
			_ = k.provoke("create", Fault{Kind: kind, Match: Mutating, Times: Forever})
		}
	})
	k.part("WrongCredentials", func(k *kit) {
		wrong := copyCredentials(k.f.Credentials)
		for _, key := range slices.Sorted(maps.Keys(wrong)) {
			if !slices.Contains(k.f.Public, key) {
				wrong[key] = append(wrong[key], "-wrong-canary"...)
			}
		}
		a, err := k.open(wrong) // the guard looks at the error
		if err == nil {
			_ = k.call("get", a, k.machine())
		}
	})
	m := k.machine()
	g := &guard{k: k, secrets: forbidden(k.f.Credentials, k.f.Public)}
	g.checkText("the class", fmt.Sprintf("%v %+v %#v", k.class, k.class, k.class))
	m.delete(k.account())
	g.checkText("the log", out.String())
}

// echo lets the cloud answer with every secret that it was sent, in every form.
// The guard looks at the error.
func (k *kit) echo(op string, status int) {
	k.Helper()
	m, a := k.machine(), k.account()
	texts, boot := forbidden(k.f.Credentials, k.f.Public), []string(nil)
	if op == "create" {
		boot = m.secretTexts()
		texts = append(append(texts, boot...), string(m.userData))
	}
	fault := k.proxy.Inject(Fault{Kind: Answer, Times: Forever, Reply: Reply{
		Status: status, Body: fmt.Sprintf("bad request: %s", strings.Join(texts, " ")),
	}})
	defer fault.Undo()
	if err := k.call(op, a, m); err != nil {
		a.checkText(op+" that is echoed", err.Error(), boot...)
	}
}

// message is where the text of an error begins in an answer.
var message = regexp.MustCompile(`(?i)("(?:message|msg|detail)"\s*:\s*"|<(?:message|faultstring)>)`)

// quoted lets the cloud answer like a row, with a part of each credential in its text. What the
// registry of a process makes of the error shows none of them.
func (k *kit) quoted(row ErrorRow) {
	k.Helper()
	d := k.f.Driver()
	redactor := cloud.RedactorOf(d, k.f.Credentials)
	for _, quote := range quotesOf(d, k.f.Credentials) {
		m, a := k.machine(), k.account()
		fault := k.proxy.Inject(Fault{Kind: Answer, Match: row.Match, Times: Forever, Reply: Reply{
			Status: row.Reply.Status, Header: row.Reply.Header,
			Body: message.ReplaceAllString(row.Reply.Body, "${1}limit of token '"+quote+"' reached "),
		}})
		err := k.call(row.Op, a, m)
		fault.Undo()
		if err == nil {
			continue
		}
		text := fmt.Sprintf("%v %+v", redactor.Error(row.Op, err), redactor.Error(row.Op, err))
		for at := 0; at+shortestPart <= len(quote); at++ {
			if part := quote[at : at+shortestPart]; strings.Contains(text, part) {
				k.Errorf("%s shows %q, a part of a credential that the cloud quoted: %s", row.Op, part, text)
				break
			}
		}
	}
}

// shortestPart is as long as the parts of credentials are that no text may show.
const shortestPart = 12

// quotesOf returns parts of what a driver declares as a credential: its begin, middle and end, and
// its begin in base64. What could not be in the text of every format is left out.
func quotesOf(d cloud.Driver, creds cloud.Credentials) (quotes []string) {
	const longest = 30 // a multiple of three, so that base64 ends with the part
	for _, key := range slices.Sorted(maps.Keys(creds)) {
		if !d.Traits().IsCredential(key) {
			continue
		}
		secrets := []string{string(creds[key])}
		if reader, is := d.(cloud.SecretReader); is {
			if some, ok := reader.SecretsIn(key, creds[key]); ok {
				secrets = some
			}
		}
		for _, secret := range secrets {
			for line := range strings.FieldsSeq(secret) {
				if len(line) < longest || strings.ContainsAny(line, `"\<>&`) {
					continue
				}
				middle := (len(line) - shortestPart) / 2
				quotes = append(quotes, line[:longest], line[middle:middle+shortestPart], line[len(line)-shortestPart:],
					base64.StdEncoding.EncodeToString([]byte(line[:longest])))
				break
			}
		}
	}
	return quotes
}

// capturing is held while the log, of which a process has one, is captured.
var capturing sync.Mutex

// capture sends what is logged to w until the returned function is called.
func capture(w *syncBuffer) (undo func()) {
	capturing.Lock()
	oldLog, oldSlog, flags := log.Writer(), slog.Default(), log.Flags()
	log.SetOutput(w)
	slog.SetDefault(slog.New(slog.NewTextHandler(w, nil)))
	return func() {
		slog.SetDefault(oldSlog)
		log.SetOutput(oldLog)
		log.SetFlags(flags)
		capturing.Unlock()
	}
}

// syncBuffer is a buffer for several writers.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// late is a context that ends soon, for calls that hang.
func late(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 200*time.Millisecond)
}
