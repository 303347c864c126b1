// Package s3 is the little of Amazon S3 that private boot data needs: objects are put,
// looked at, listed and deleted, and a URL that fetches one for a limited time is signed.
// Requests are signed by the SDK; the service's own module of the SDK, which is larger than
// that of the whole driver, is not needed for these five.
package s3
