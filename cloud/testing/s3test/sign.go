package s3test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	dateForm = "20060102T150405Z"
	skew     = 15 * time.Minute
	longest  = 7 * 24 * 3600 // seconds that a URL may be valid
)

// signature is what a request says about who has signed it.
type signature struct {
	credential, signed, value, date, token string
	payload                                string // hash of the content, or what stands for it
	expires                                int    // seconds; 0 unless it is in the URL
}

// signatureOf returns the signature of a request, in its URL or its header.
func signatureOf(r *http.Request) (s signature, ok bool) {
	query := r.URL.Query()
	if query.Has("X-Amz-Signature") {
		s = signature{
			credential: query.Get("X-Amz-Credential"), signed: query.Get("X-Amz-SignedHeaders"),
			value: query.Get("X-Amz-Signature"), date: query.Get("X-Amz-Date"), token: query.Get("X-Amz-Security-Token"),
			payload: "UNSIGNED-PAYLOAD",
		}
		var err error
		s.expires, err = strconv.Atoi(query.Get("X-Amz-Expires"))
		return s, err == nil && s.expires > 0 && s.expires <= longest && query.Get("X-Amz-Algorithm") == "AWS4-HMAC-SHA256"
	}
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	fields := map[string]string{}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		fields[name] = value
	}
	return signature{
		credential: fields["Credential"], signed: fields["SignedHeaders"], value: fields["Signature"],
		date: r.Header.Get("X-Amz-Date"), token: r.Header.Get("X-Amz-Security-Token"),
		payload: r.Header.Get("X-Amz-Content-Sha256"),
	}, ok
}

// authenticate checks who has signed a request, and when.
func (s *Store) authenticate(r *http.Request, body []byte) error {
	by, ok := signatureOf(r)
	if !ok {
		return refuse(http.StatusForbidden, "AccessDenied", "Access Denied")
	}
	id, scope, _ := strings.Cut(by.credential, "/")
	account, known := s.settings.Accounts[id]
	if !known {
		return refuse(http.StatusForbidden, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist.")
	}
	parts, at, err := s.scopeOf(scope, by.date)
	if err != nil {
		return err
	}
	switch {
	case !slices.Contains(strings.Split(by.signed, ";"), "host"), by.expires == 0 && unsigned(r, by.signed):
		return refuse(http.StatusForbidden, "AccessDenied", "There were headers present in the request which were not signed")
	case by.expires == 0 && by.payload != hexHash(body):
		return refuse(http.StatusBadRequest, "XAmzContentSHA256Mismatch", "The hash is another one.")
	case sign(account.Secret, parts, toSign(r, by, scope)) != by.value:
		return refuse(http.StatusForbidden, "SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided.")
	case account.Token != by.token:
		return refuse(http.StatusBadRequest, "InvalidToken", "The provided token is malformed or otherwise invalid.")
	}
	return s.inTime(by, at, account)
}

// scopeOf returns the parts of the scope of a signature of that date, and the date.
func (s *Store) scopeOf(scope, date string) (parts []string, at time.Time, err error) {
	const elements = 4 // date, region, service, aws4_request
	parts = strings.Split(scope, "/")
	at, err = time.Parse(dateForm, date)
	if err != nil || len(parts) != elements || !strings.HasPrefix(date, parts[0]+"T") ||
		parts[2] != "s3" || parts[3] != "aws4_request" {
		return nil, at, refuse(http.StatusBadRequest, "AuthorizationQueryParametersError", "The scope is malformed.")
	}
	if parts[1] != s.settings.Region {
		return nil, at, refuse(http.StatusBadRequest, "AuthorizationHeaderMalformed",
			fmt.Sprintf("The region '%s' is wrong; expecting '%s'", parts[1], s.settings.Region))
	}
	return parts, at, nil
}

// inTime checks that a signature is neither too old nor too young, and that its session lasts.
func (s *Store) inTime(by signature, at time.Time, account Account) error {
	now := s.now()
	switch {
	case account.Token != "" && !now.Before(account.Ends):
		return refuse(http.StatusBadRequest, "ExpiredToken", "The provided token has expired.")
	case at.Sub(now) > skew, by.expires == 0 && now.Sub(at) > skew:
		return refuse(http.StatusForbidden, "RequestTimeTooSkewed",
			"The difference between the request time and the current time is too large.")
	case by.expires > 0 && now.Sub(at) >= time.Duration(by.expires)*time.Second:
		return refuse(http.StatusForbidden, "AccessDenied", "Request has expired")
	}
	return nil
}

// unsigned reports whether a header that has to be signed is not.
func unsigned(r *http.Request, signed string) bool {
	for name := range r.Header {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "x-amz-") && !slices.Contains(strings.Split(signed, ";"), name) {
			return true
		}
	}
	return false
}

// toSign is what the caller has signed.
func toSign(r *http.Request, by signature, scope string) string {
	var headers strings.Builder
	for name := range strings.SplitSeq(by.signed, ";") {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = hostOf(r)
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		fmt.Fprintf(&headers, "%s:%s\n", name, strings.Join(strings.Fields(value), " "))
	}
	query := r.URL.Query()
	query.Del("X-Amz-Signature")
	canonical := strings.Join([]string{
		r.Method, strings.ReplaceAll(escape(r.URL.Path), "%2F", "/"),
		strings.ReplaceAll(query.Encode(), "+", "%20"), headers.String(), by.signed, by.payload,
	}, "\n")
	return strings.Join([]string{"AWS4-HMAC-SHA256", by.date, scope, hexHash([]byte(canonical))}, "\n")
}

func escape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

func hostOf(r *http.Request) string {
	if r.Host != "" {
		return r.Host
	}
	return r.URL.Host
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
