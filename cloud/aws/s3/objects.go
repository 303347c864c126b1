package s3

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Object is an object without its content.
type Object struct {
	Key  string
	Made time.Time // when its content was put, by the clock of S3
	// Of Look only.
	Now time.Time // the time of the answer, by the clock of S3
	Sum string    // as Sum; empty if S3 has none
}

// Sum is the checksum by which S3 knows a content: SHA-256 in base64.
func Sum(content []byte) string {
	sum := sha256.Sum256(content)
	return base64.StdEncoding.EncodeToString(sum[:])
}

const checksum = "X-Amz-Checksum-Sha256"

// Upload is what is to be stored.
type Upload struct {
	Content []byte
	Tags    url.Values
	Replace bool // an object that is there; else it stays as it is
}

// Put stores an object, or says that it is there already and stays. version is empty unless
// the bucket keeps the versions of its objects.
func (b Bucket) Put(ctx context.Context, op, key string, u Upload) (version string, there bool, failed *cloud.Error) {
	header := map[string]string{
		"Content-Type": "application/octet-stream", checksum: Sum(u.Content), "X-Amz-Tagging": u.Tags.Encode(),
	}
	if !u.Replace {
		header["If-None-Match"] = "*"
	}
	out, e := b.do(ctx, request{op: op, method: http.MethodPut, key: key, header: header, body: u.Content})
	switch {
	case e != nil && e.Reason == reasonThere:
		return "", true, nil
	case e != nil:
		return "", false, e
	}
	if version = out.header.Get("X-Amz-Version-Id"); version == "null" {
		version = ""
	}
	return version, false, nil
}

// Look returns an object; NotFound is an error of that code.
func (b Bucket) Look(ctx context.Context, op, key string) (Object, *cloud.Error) {
	out, e := b.do(ctx, request{
		op: op, method: http.MethodHead, key: key, header: map[string]string{"X-Amz-Checksum-Mode": "ENABLED"},
	})
	if e != nil {
		return Object{}, e
	}
	made, err := http.ParseTime(out.header.Get("Last-Modified"))
	now, err2 := http.ParseTime(out.header.Get("Date"))
	if err != nil || err2 != nil {
		return Object{}, driverkit.BrokenAnswer(op, "S3 does not say when the object was made")
	}
	return Object{Key: key, Made: made, Now: now, Sum: out.header.Get(checksum)}, nil
}

// Delete deletes an object, or where version is not empty that version of it. It does
// nothing where there is none.
func (b Bucket) Delete(ctx context.Context, op, key, version string) *cloud.Error {
	query := url.Values{}
	if version != "" {
		query.Set("versionId", version)
	}
	_, e := b.do(ctx, request{op: op, method: http.MethodDelete, key: key, query: query})
	if e != nil && gone(e) {
		return nil
	}
	return e
}

// page is an answer of ListObjectsV2.
type page struct {
	XMLName  xml.Name `xml:"ListBucketResult"`
	Next     string   `xml:"NextContinuationToken"`
	Contents []struct {
		Key          string
		LastModified time.Time
	}
}

// List yields the objects whose keys begin with prefix, page by page, up to the first
// error. A bucket that does not exist has none.
func (b Bucket) List(ctx context.Context, op, prefix string) iter.Seq2[Object, error] {
	return driverkit.Pages(ctx, func(ctx context.Context, token string) ([]Object, string, error) {
		query := url.Values{"list-type": {"2"}, "prefix": {prefix}}
		if token != "" {
			query.Set("continuation-token", token)
		}
		out, e := b.do(ctx, request{op: op, method: http.MethodGet, query: query})
		if e != nil && gone(e) {
			return nil, "", nil
		}
		if e != nil {
			return nil, "", e
		}
		var found page
		if err := xml.Unmarshal(out.body, &found); err != nil {
			return nil, "", driverkit.BrokenAnswer(op, "the answer is no list of objects")
		}
		var all []Object
		for _, c := range found.Contents {
			all = append(all, Object{Key: c.Key, Made: c.LastModified})
		}
		return all, found.Next, nil
	})
}
