package counterpoise.peers;

/** One way to call a peer, timed again and again. */
interface Surface {
    /** "kernel" (objects in, objects out) or "leader" (bytes in, bytes out). */
    String name();

    /** Builds fresh input; not timed. */
    void prepare();

    /** The timed call. */
    void run();

    /** What the last run decided; not timed. Null: this surface has nothing to add. */
    Owners owners();
}
