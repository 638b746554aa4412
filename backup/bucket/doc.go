// Package bucket is the interface of object stores: S3, Azure Blob Storage and Google Cloud Storage. Its subpackages
// implement it, with libraries where these are small enough.
//
//	package backup ─▶ Repeated ─▶ Bucket (s3, azure, gcs) ─▶ library ─▶ Transport ─▶ service
//	                  repeats     one request               signs      ends requests
//	                  requests    for each call             requests   that stall
//
// The services differ from directories: an object appears as a whole when its request is complete, there is no rename,
// directories are only prefixes of names, and a request that has failed may have been executed. All of them are
// strongly consistent. Requests are repeated by this package only, with one bound for all services.
//
// It does not know backups (package backup).
package bucket
