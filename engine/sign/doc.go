// Package sign holds the issuer's RSA key and the right to use it. A key comes in as MH's certificate file
// ([ParseCertificate]) or a PKCS#8 PEM ([ParsePEM]), rests on disk only under a passphrase ([Seal], [Open]), and in
// memory can do one thing: make a JWS compact with the header {"alg":"RS512"}, as MH's own signer does
// (svfe-api-firmador 2.0.0, jose4j). It cannot be printed, logged or encoded.
//
// A document is signed with a [Right], a value that is spent by its first use: a second signature of the same form
// of a document cannot happen by repeating a call.
package sign
