package ec2test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// apiError is an error as EC2 answers it.
type apiError struct {
	code, message string
	status        int
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func fail(code, format string, args ...any) error {
	return &apiError{code: code, message: fmt.Sprintf(format, args...), status: http.StatusBadRequest}
}

// ServeHTTP answers one request of the query protocol.
func (c *Cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		form = url.Values{}
	}
	out, err := c.serve(r, body, form)
	c.mu.Lock()
	call := Call{Action: form.Get("Action"), Form: form}
	if e, ok := errors.AsType[*apiError](err); ok {
		call.Code = e.code
	}
	c.calls = append(c.calls, call)
	c.mu.Unlock()
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	if err != nil {
		refuse(w, err, form)
		return
	}
	text, err := xml.Marshal(out)
	if err != nil {
		refuse(w, err, form)
		return
	}
	_, _ = w.Write(text) // the caller may be gone
}

func refuse(w http.ResponseWriter, err error, form url.Values) {
	e, ok := errors.AsType[*apiError](err)
	if !ok {
		e = &apiError{"InternalError", err.Error(), http.StatusInternalServerError}
	}
	if form.Get("Version") == balancingVersion {
		refuseBalancing(w, e)
		return
	}
	type item struct{ Code, Message string }
	text, _ := xml.Marshal(struct { // cannot fail
		XMLName   xml.Name `xml:"Response"`
		Errors    []item   `xml:"Errors>Error"`
		RequestID string
	}{Errors: []item{{e.code, e.message}}, RequestID: "ec2test"})
	w.WriteHeader(e.status)
	_, _ = w.Write(text) // the caller may be gone
}

// serve checks who asks and lets the action happen.
func (c *Cloud) serve(r *http.Request, body []byte, form url.Values) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	service := "ec2"
	if form.Get("Version") == balancingVersion {
		service = balancing
	}
	if form.Get("Version") == identityVersion {
		service = "sts"
	}
	if c.isOther(r) {
		return c.other.serve(r, body, form)
	}
	if err := c.authenticate(r, body, service); err != nil {
		return nil, err
	}
	if err := c.throttle(form); err != nil {
		return nil, err
	}
	c.sweep()
	if service == balancing {
		return c.balance(params{form})
	}
	if service == "sts" {
		return c.identity(params{form})
	}
	action, known := map[string]func(*Cloud, params) (any, error){
		"RunInstances": (*Cloud).runInstances, "TerminateInstances": (*Cloud).terminateInstances,
		"RebootInstances": (*Cloud).rebootInstances, "StartInstances": (*Cloud).startInstances,
		"DescribeInstances": (*Cloud).describeInstances, "DescribeVolumes": (*Cloud).describeVolumes,
		"DescribeNetworkInterfaces": (*Cloud).describeInterfaces, "DescribeImages": (*Cloud).describeImages,
		"DescribeInstanceTypes": (*Cloud).describeTypes, "DescribeSubnets": (*Cloud).describeSubnets,
		"GetConsoleOutput": (*Cloud).getConsole,
		"CreateTags":       (*Cloud).createTags, "DeleteTags": (*Cloud).deleteTags,
		"DeleteVolume": (*Cloud).deleteVolume, "DeleteNetworkInterface": (*Cloud).deleteInterface,
		"DescribeSpotInstanceRequests":    (*Cloud).describeSpotRequests,
		"CancelSpotInstanceRequests":      (*Cloud).cancelSpotRequests,
		"ModifyNetworkInterfaceAttribute": (*Cloud).modifyInterface, "AssignIpv6Addresses": (*Cloud).assignPrefixes,
	}[form.Get("Action")]
	if !known {
		return nil, fail("InvalidAction", "The action %s is not valid for this web service.", form.Get("Action"))
	}
	if err := checkRequest(params{form}); err != nil {
		return nil, err
	}
	fault := c.fault(form.Get("Action"))
	if fault != nil && !fault.After {
		return nil, fault.error()
	}
	out, err := action(c, params{form})
	if fault != nil {
		return nil, fault.error()
	}
	return out, err
}

func (f *Fault) error() error {
	e := &apiError{f.Code, f.Message, f.Status}
	if e.status == 0 {
		e.status = http.StatusBadRequest
	}
	return e
}

// fault returns what strikes a call, or nil.
func (c *Cloud) fault(action string) *Fault {
	for _, f := range c.faults {
		if f.Action != "" && f.Action != action {
			continue
		}
		f.seen++
		if f.Every > 1 && f.seen%f.Every != 0 || f.Times > 0 && f.hit >= f.Times {
			continue
		}
		f.hit++
		return f
	}
	return nil
}

// authenticate checks the signature, version 4, of a request.
func (c *Cloud) authenticate(r *http.Request, body []byte, service string) error {
	var credential, signed, signature string
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			credential = value
		case "SignedHeaders":
			signed = value
		case "Signature":
			signature = value
		}
	}
	id, scope, _ := strings.Cut(credential, "/")
	secret, known := c.settings.Accounts[id]
	if !ok || !known {
		return &apiError{
			"AuthFailure", "AWS was not able to validate the provided access credentials",
			http.StatusUnauthorized,
		}
	}
	parts := strings.Split(scope, "/")
	const elements = 4 // date, region, service, aws4_request
	if len(parts) != elements || parts[1] != c.settings.Region || parts[2] != service ||
		sign(secret, parts, stringToSign(r, body, scope, signed)) != signature {
		return &apiError{
			"SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided.", http.StatusForbidden,
		}
	}
	return nil
}

// stringToSign is what the caller has signed.
func stringToSign(r *http.Request, body []byte, scope, signed string) string {
	var headers strings.Builder
	names := strings.Split(signed, ";")
	slices.Sort(names)
	for _, name := range names {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = r.Host
			if value == "" {
				value = r.URL.Host
			}
		case "content-length":
			value = fmt.Sprint(len(body))
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	canonical := strings.Join([]string{r.Method, path, r.URL.RawQuery, headers.String(), signed, hexHash(body)}, "\n")
	return strings.Join([]string{"AWS4-HMAC-SHA256", r.Header.Get("X-Amz-Date"), scope, hexHash([]byte(canonical))}, "\n")
}

func sign(secret string, scope []string, text string) string {
	key := []byte("AWS4" + secret)
	for _, part := range scope {
		key = mac(key, part)
	}
	return hex.EncodeToString(mac(key, text))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hexHash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// params are the parameters of a request.
type params struct{ url.Values }

// list returns the values of name.1, name.2 and so on.
func (f params) list(name string) []string {
	var all []string
	for i := 1; f.Has(fmt.Sprintf("%s.%d", name, i)); i++ {
		all = append(all, f.Get(fmt.Sprintf("%s.%d", name, i)))
	}
	return all
}

// count returns how many objects name.1, name.2 and so on there are.
func (f params) count(name string) int {
	n := 0
	for {
		prefix := fmt.Sprintf("%s.%d.", name, n+1)
		found := false
		for key := range f.Values {
			found = found || strings.HasPrefix(key, prefix)
		}
		if !found {
			return n
		}
		n++
	}
}
