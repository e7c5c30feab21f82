package io.confluent.kafka.schemaregistry.client.rest.exceptions;

/** VoltDB's signatures name this class of a library that it does not need without topics. */
public class RestClientException extends Exception {
    private static final long serialVersionUID = 1;
}
