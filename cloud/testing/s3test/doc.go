// Package s3test is S3 in one region, with memory, as far as private boot data needs it. It
// refuses what S3 refuses: signatures in headers and in URLs are checked for key, region,
// time, path, query and content, a URL ends with its expiry or with the session that has
// signed it, and no object is read without. [Store.Guest] is an instance that boots with
// user data: it fetches what that names as cloud-init and Ignition do, without credentials.
package s3test
