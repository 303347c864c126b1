// Package bootdata keeps the boot data of instances as private objects in S3, because EC2
// shows user data to whoever may describe instances. The instance gets a URL that fetches its
// object for a limited time. docs/adr/0009-private-boot-data.md says why it is made so.
//
// The key of an object is, each part escaped:
//
//	<prefix>/<hash of the ownership tags>/<owner id>/<machine>/<id of the Cluster, or ->/<token>
//
// so a listing by prefix tells whose an object is, and a machine's objects share a prefix.
package bootdata
