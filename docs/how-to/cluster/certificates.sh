#!/bin/sh
# Make an authority of your own (ca.pem, ca-key.pem), and one certificate for all machines of a cluster (cert.pem, key.pem), here.
set -eu
umask 077
days=${1:-365}
key="-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
openssl req -x509 $key -days "$days" -subj /CN=storagelab-ca -keyout ca-key.pem -out ca.pem
openssl req $key -subj /CN=cluster -keyout key.pem -out request.pem
openssl x509 -req -in request.pem -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days "$days" -out cert.pem
rm request.pem
