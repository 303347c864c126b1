package s3test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// apiError is an error as S3 answers it.
type apiError struct {
	status        int
	code, message string
}

func (e *apiError) Error() string { return e.code + ": " + e.message }

func refuse(status int, code, message string) error { return &apiError{status, code, message} }

// answer is a success.
type answer struct {
	status int
	header map[string]string
	body   []byte
}

// ServeHTTP answers one request, with the bucket in the name of the host or in the path.
func (s *Store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	bucket, key := place(r)
	out, err := s.serve(r, bucket, key, body)
	call := Call{Method: r.Method, Bucket: bucket, Key: key, Presigned: r.URL.Query().Has("X-Amz-Signature")}
	header := w.Header()
	header.Set("Date", s.now().UTC().Format(http.TimeFormat))
	header.Set("X-Amz-Request-Id", "S3TEST")
	if e, ok := errors.AsType[*apiError](err); ok {
		call.Code = e.code
		header.Set("Content-Type", "application/xml")
		out.status = e.status
		if r.Method != http.MethodHead {
			out.body, _ = xml.Marshal(struct { // cannot fail
				XMLName       xml.Name `xml:"Error"`
				Code, Message string
			}{Code: e.code, Message: e.message})
		}
	}
	s.calls = append(s.calls, call)
	for name, value := range out.header {
		header.Set(name, value)
	}
	w.WriteHeader(out.status)
	_, _ = w.Write(out.body) // the caller may be gone
}

// place returns bucket and key of a request.
func place(r *http.Request) (bucket, key string) {
	path := strings.TrimPrefix(r.URL.Path, "/")
	if name, _, virtual := strings.Cut(hostOf(r), ".s3."); virtual {
		return name, path
	}
	bucket, key, _ = strings.Cut(path, "/")
	return bucket, key
}

// serve checks who asks and lets it happen.
func (s *Store) serve(r *http.Request, name, key string, body []byte) (answer, error) {
	if err := s.fault(r.Method); err != nil {
		return answer{}, err
	}
	bucket, known := s.settings.Buckets[name]
	if !known {
		return answer{}, refuse(http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist")
	}
	if err := s.authenticate(r, body); err != nil {
		return answer{}, err
	}
	if owner := r.Header.Get("X-Amz-Expected-Bucket-Owner"); owner != "" && owner != bucket.Owner {
		return answer{}, refuse(http.StatusForbidden, "AccessDenied", "Access Denied")
	}
	if key != "" {
		return s.ofObject(r, name, bucket, key, body)
	}
	if r.Method != http.MethodGet || r.URL.Query().Get("list-type") != "2" {
		return answer{}, refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed.")
	}
	return s.list(r.URL.Query(), name)
}

// ofObject carries out what is about one object.
func (s *Store) ofObject(r *http.Request, name string, bucket Bucket, key string, body []byte) (answer, error) {
	const keyMax = 1024
	if len(key) > keyMax || !utf8.ValidString(key) {
		return answer{}, refuse(http.StatusBadRequest, "KeyTooLongError", "Your key is too long")
	}
	switch r.Method {
	case http.MethodPut:
		return s.put(r, name, bucket, key, body)
	case http.MethodGet, http.MethodHead:
		return s.get(r, name, key)
	case http.MethodDelete:
		return s.remove(r.URL.Query().Get("versionId"), name, bucket, key)
	}
	return answer{}, refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed.")
}

// fault returns what strikes a call, or nil.
func (s *Store) fault(method string) error {
	for _, f := range s.faults {
		if f.Method != "" && f.Method != method || f.Times < 0 {
			continue
		}
		if f.Times == 1 {
			f.Times = -1 // it has struck for the last time
		} else if f.Times > 1 {
			f.Times--
		}
		return refuse(f.Status, f.Code, "injected")
	}
	return nil
}

func sumOf(content []byte) string {
	sum := sha256.Sum256(content)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// put stores an object.
func (s *Store) put(r *http.Request, name string, bucket Bucket, key string, body []byte) (answer, error) {
	tags, err := checkTags(r.Header.Get("X-Amz-Tagging"))
	if err != nil {
		return answer{}, err
	}
	if sum := r.Header.Get("X-Amz-Checksum-Sha256"); sum != "" && sum != sumOf(body) {
		return answer{}, refuse(http.StatusBadRequest, "BadDigest", "The checksum did not match what we received.")
	}
	at := name + "/" + key
	if _, there := s.objects[at]; there && r.Header.Get("If-None-Match") == "*" {
		return answer{}, refuse(http.StatusPreconditionFailed, "PreconditionFailed",
			"At least one of the pre-conditions you specified did not hold")
	}
	o := Object{Bucket: name, Key: key, Content: body, Tags: tags, Made: s.now()}
	header := map[string]string{}
	if bucket.Versions {
		s.serial++
		o.Version = fmt.Sprintf("v%d", s.serial)
		header["X-Amz-Version-Id"] = o.Version
		s.versions[at] = append(s.versions[at], o)
	}
	s.objects[at] = o
	return answer{status: http.StatusOK, header: header}, nil
}

// checkTags returns the tags of a header, if S3 takes them.
func checkTags(header string) (url.Values, error) {
	const most, keyMax, valueMax = 10, 128, 256
	tags, err := url.ParseQuery(header)
	bad := err != nil || len(tags) > most
	for key, values := range tags {
		bad = bad || len(values) != 1 || key == "" || len(key) > keyMax || len(values[0]) > valueMax ||
			strings.HasPrefix(key, "aws:") || strings.ContainsAny(key+values[0], "\"'<>&%*#!?()[]{}|\\^`~;,$\t\r\n")
	}
	if bad {
		return nil, refuse(http.StatusBadRequest, "InvalidTag", "The tags you have provided are invalid")
	}
	return tags, nil
}

// get returns an object, without its content if it is only looked at.
func (s *Store) get(r *http.Request, name, key string) (answer, error) {
	o, there := s.objects[name+"/"+key]
	if !there {
		return answer{}, refuse(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	}
	out := answer{status: http.StatusOK, header: map[string]string{
		"Last-Modified": o.Made.UTC().Format(http.TimeFormat), "Content-Length": strconv.Itoa(len(o.Content)),
		"Content-Type": "application/octet-stream",
	}}
	if r.Header.Get("X-Amz-Checksum-Mode") == "ENABLED" {
		out.header["X-Amz-Checksum-Sha256"] = sumOf(o.Content)
	}
	if r.Method == http.MethodGet {
		out.body = o.Content
	}
	return out, nil
}

// remove deletes an object, or one of its versions.
func (s *Store) remove(version, name string, bucket Bucket, key string) (answer, error) {
	at := name + "/" + key
	if version == "" || s.objects[at].Version == version {
		delete(s.objects, at)
	}
	if bucket.Versions && version != "" {
		s.versions[at] = slices.DeleteFunc(s.versions[at], func(o Object) bool { return o.Version == version })
	}
	return answer{status: http.StatusNoContent}, nil
}

// list returns a page of keys.
func (s *Store) list(query url.Values, name string) (answer, error) {
	type item struct {
		Key          string
		LastModified time.Time
	}
	var out struct {
		XMLName     xml.Name `xml:"ListBucketResult"`
		IsTruncated bool
		Next        string `xml:"NextContinuationToken,omitempty"`
		Contents    []item
	}
	for _, at := range slices.Sorted(maps.Keys(s.objects)) {
		o := s.objects[at]
		if o.Bucket != name || !strings.HasPrefix(o.Key, query.Get("prefix")) || o.Key <= query.Get("continuation-token") {
			continue
		}
		if size := max(s.settings.PageSize, 1); len(out.Contents) == size {
			out.IsTruncated, out.Next = true, out.Contents[size-1].Key
			break
		}
		out.Contents = append(out.Contents, item{o.Key, o.Made.UTC().Truncate(time.Second)})
	}
	text, err := xml.Marshal(out)
	return answer{status: http.StatusOK, header: map[string]string{"Content-Type": "application/xml"}, body: text}, err
}
