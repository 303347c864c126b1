package s3

import (
	"encoding/xml"
	"net/http"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// Reasons that more than the table depends on.
const (
	reasonThere    = "PreconditionFailed"
	reasonNoBucket = "NoSuchBucket"
)

// bucketField is that of the provider spec about which S3's refusals are.
const bucketField = "privateUserData.bucket"

const (
	nameBucket = "name a bucket that exists"
	sameRegion = "name a bucket in the region of the class"
)

// table is the errors of S3.
var table = driverkit.Table{
	{Means: cloud.Throttled, Codes: []string{"SlowDown", "Throttling*", "TooManyRequests*", "RequestLimitExceeded"}},
	{Means: cloud.Unavailable, Codes: []string{
		"InternalError", "ServiceUnavailable", "RequestTimeout", "OperationAborted", "ConditionalRequestConflict", "503*",
	}},
	{Means: cloud.Invalid, Codes: []string{reasonNoBucket, "InvalidBucketName"}, Field: bucketField, Remedy: nameBucket},
	{Means: cloud.Invalid, Codes: []string{
		"PermanentRedirect", "TemporaryRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException",
	}, Field: bucketField, Remedy: sameRegion},
	{Means: cloud.Invalid, Status: http.StatusMovedPermanently, Field: bucketField, Remedy: sameRegion},
	{
		Means: cloud.Invalid, Codes: []string{"InvalidTag"}, Field: "tags",
		Remedy: "give the class at most 8 ownership tags, of letters, digits, spaces and + - = . _ : / @",
	},
	{Means: cloud.Denied, Codes: []string{
		"AccessDenied", "AllAccessDisabled", "AccountProblem", "ExpiredToken", "InvalidAccessKeyId", "InvalidToken",
		"SignatureDoesNotMatch", "RequestTimeTooSkewed", "RequestExpired", "NotSignedUp", "KMS.*",
	}},
	{Means: cloud.Denied, Status: http.StatusForbidden},
	{Means: cloud.NotFound, Codes: []string{"NoSuchKey", "NoSuchVersion"}},
	{Means: cloud.NotFound, Status: http.StatusNotFound}, // of a HEAD, which has no body
	{Means: cloud.Unknown, Codes: []string{reasonThere}},
}

// refusal is the error of an answer that is no success.
func refusal(op string, r *http.Response, body []byte, now time.Time) *cloud.Error {
	a := driverkit.Answer{
		Status: r.StatusCode, RetryAfter: driverkit.RetryAfter(r.Header, now), RequestID: r.Header.Get("X-Amz-Request-Id"),
	}
	var text struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}
	if xml.Unmarshal(body, &text) == nil {
		a.Code, a.Message = text.Code, text.Message
	}
	return table.Error(op, a)
}

// gone reports whether there is nothing of what a call is about.
func gone(e *cloud.Error) bool { return e.Code == cloud.NotFound || e.Reason == reasonNoBucket }
